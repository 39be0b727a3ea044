"""Build the parts of a driver's node in order: stores, claims, devices, services.

Each part gets its dependencies when it is built. It reaches parts that are built later through functions, which
are called only after all parts exist.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from dradriver.driver.base import Driver
from dradriver.model.resource.pool import Pool
from dradriver.node.api import Api
from dradriver.node.claims.claim_status import StatusWriter
from dradriver.node.claims.context import ClaimContext, Stores
from dradriver.node.claims.lookup import NodeClaims
from dradriver.node.claims.metadata_updates import MetadataUpdates
from dradriver.node.claims.rebuild import Rebuilder
from dradriver.node.claims.reconcile import Reconciler
from dradriver.node.config import DRIVER_DIR, PluginConfig
from dradriver.node.config_maps import read_config_map
from dradriver.node.crash_points import CrashPoint, Observer
from dradriver.node.devices.discovery import Discovery
from dradriver.node.devices.inventory import DiscoveredDevices
from dradriver.node.devices.publish_election import FILE_NAME as ELECTION_FILE
from dradriver.node.devices.publish_election import PublishElection
from dradriver.node.devices.publishing import NodePublisher, PublisherMaker
from dradriver.node.devices.shared_pools import look_up_pools
from dradriver.node.driver_calls import DriverCalls
from dradriver.node.driver_context import ContextRequests, ProcessContext
from dradriver.node.files.cdi import CdiDirectory, CdiNames
from dradriver.node.files.claim_files import ClaimFiles
from dradriver.node.files.metadata import MetadataDirectory
from dradriver.node.kubelet.dra_service import ClaimService, claim_methods
from dradriver.node.kubelet.health_service import HealthMonitor, health_methods
from dradriver.node.kubelet.in_flight import Traffic
from dradriver.node.kubelet.probe_service import Probe
from dradriver.node.kubelet.registration import HEALTH_VERSIONS, PLUGIN_VERSIONS, Registration
from dradriver.node.kubelet.server import Method, SocketServer
from dradriver.node.kubelet.sockets import Sockets
from dradriver.node.reporting.background_failures import BackgroundFailures
from dradriver.node.reporting.claim_outcomes import Outcomes
from dradriver.node.reporting.events import Announcements
from dradriver.node.reporting.instance_file import InstanceFile
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.node.reporting.pool_reports import PoolNews
from dradriver.node.reporting.readiness import ProcessReadiness
from dradriver.node.state.boot import current_boot_id
from dradriver.node.state.database import FILE_NAME
from dradriver.node.state.locks import ClaimLocks
from dradriver.node.state.store import StateStore

__all__ = ["Environment", "Hooks", "NodeParts", "compose"]

_METADATA_DIR: Final = "dra-device-metadata"
_LOCK_FILE: Final = "claims.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The inputs of a node.

    Attributes:
        driver: the author's driver.
        client: the client of the API server.
        config: settings of the process.
        sockets: the paths of the sockets.
        metrics: counts events of the node side.
        announcements: writes Kubernetes events.
        make_publisher: creates the publisher.
    """

    driver: Driver
    client: Api
    config: PluginConfig
    sockets: Sockets
    metrics: NodeMetrics
    announcements: Announcements
    make_publisher: PublisherMaker

    @property
    def data_dir(self) -> Path:
        """Return the plugin's data directory."""
        return self.config.data_dir(self.driver.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Callbacks to the owner of the parts.

    Attributes:
        observe: called after each side effect on a claim.
        unprepared: called with the UID of each claim that has just been unprepared.
        discovered: called with the pools of each result of `discover()`; decides what to publish.
        readiness: returns why the instance is not ready; empty if it is ready.
    """

    observe: Observer
    unprepared: Callable[[str], None]
    discovered: Callable[[Sequence[Pool]], None]
    readiness: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    """The parts of a driver's node; none of them runs yet.

    Attributes:
        calls: calls the driver.
        inventory: the discovered devices.
        stores: the prepared state, the claims' files and locks.
        election: decides which instance publishes.
        status: writes `status.devices` of claims.
        claims: the context of operations on claims.
        reconciler: rebuilds the state, unprepares claims that are gone, and restores files.
        discovery: calls the driver's `discover()`.
        publisher: publishes the devices while this instance is elected.
        news: reports the state of the published pools.
        context: the driver's context.
        restarts: the reasons for which the driver asked for a restart.
        health: watches the driver's health.
        traffic: counts the kubelet's calls.
        probe: answers liveness probes.
        registration: answers the kubelet's plugin watcher.
        service_server, registrar_server: serve the two sockets.
        readiness: computes why the instance is not ready.
        instance_file: writes the readiness for `dradriver node status`.
    """

    calls: DriverCalls
    inventory: DiscoveredDevices
    stores: Stores
    election: PublishElection
    status: StatusWriter
    claims: ClaimContext
    reconciler: Reconciler
    discovery: Discovery
    publisher: NodePublisher
    news: PoolNews
    context: ProcessContext
    restarts: "asyncio.Queue[str]"
    health: HealthMonitor
    traffic: Traffic
    probe: Probe
    registration: Registration
    service_server: SocketServer
    registrar_server: SocketServer
    readiness: ProcessReadiness
    instance_file: InstanceFile


async def compose(environment: Environment, hooks: Hooks) -> NodeParts:
    """Open the stores and build the parts in order; afterwards the driver has its context.

    Args:
        environment: the inputs. Its directories exist.
        hooks: the owner's callbacks.

    Raises:
        StateError: the prepared state or a lock file cannot be opened or created.
    """
    driver, client, config = environment.driver, environment.client, environment.config
    metrics, announcements, data_dir = environment.metrics, environment.announcements, environment.data_dir
    node = config.node_name

    calls, inventory = DriverCalls(driver), DiscoveredDevices()
    stores, election = await _open_stores(environment, hooks.observe)

    def status_refused(message: str) -> None:
        announcements.of_node("DeviceStatusRefused", message)

    status = StatusWriter(client, driver.name, metrics, node, status_refused)
    claims = ClaimContext(
        calls=calls,
        node=node,
        inventory=inventory,
        stores=stores,
        deadline=config.prepare_deadline,
        observe=partial(_observe, hooks, status),
        on_prepared=status.want,
        look_up_pools=look_up_pools(client, driver.name),
    )
    reconciler = _reconciler(environment, claims)

    discovery = Discovery(calls, node, inventory, hooks.discovered, metrics, config.rediscover_delay)
    restarts: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def restart(reason: str) -> None:
        loop.call_soon_threadsafe(restarts.put_nowait, reason)

    context = ProcessContext(
        ContextRequests(
            rediscover=discovery.rediscover,
            restart=restart,
            read_config_map=partial(read_config_map, client),
            update_metadata=MetadataUpdates(driver.name, stores, status.want).update,
        ),
        node,
        data_dir / DRIVER_DIR,
    )
    driver.set_context(context)

    health, traffic, probe = HealthMonitor(driver, node, metrics), Traffic(), Probe()
    registration = _registration(environment, election, health)
    readiness = ProcessReadiness(
        lambda: registration.missing, lambda: inventory.failure, lambda: election.waiting
    )
    news = PoolNews(data_dir, metrics, readiness, announcements)
    publisher = environment.make_publisher(discovery.fallback, news)

    service = ClaimService(
        client,
        claims,
        metrics,
        Outcomes(announcements),
        config.prepare_deadline,
        reconciler.nudge,
        traffic,
    )
    services = _services(service, health, probe, node)
    return NodeParts(
        calls=calls,
        inventory=inventory,
        stores=stores,
        election=election,
        status=status,
        claims=claims,
        reconciler=reconciler,
        discovery=discovery,
        publisher=publisher,
        news=news,
        context=context,
        restarts=restarts,
        health=health,
        traffic=traffic,
        probe=probe,
        registration=registration,
        service_server=SocketServer(environment.sockets.service, services),
        registrar_server=SocketServer(environment.sockets.registrar, registration.methods()),
        readiness=readiness,
        instance_file=InstanceFile(data_dir, environment.sockets.service, hooks.readiness, metrics),
    )


async def _open_stores(environment: Environment, observe: Observer) -> tuple[Stores, PublishElection]:
    config, driver, data_dir = environment.config, environment.driver, environment.data_dir
    loop = asyncio.get_running_loop()

    def set_aside(path: Path) -> None:
        """Report that the state file was set aside; called in the state's thread."""
        told = f"the prepared state was unreadable, set aside as {path}, and is rebuilt"
        with suppress(RuntimeError):  # the loop may be closed
            loop.call_soon_threadsafe(environment.announcements.of_node, "StateSetAside", told)

    state = StateStore(data_dir / FILE_NAME, config.boot_id or current_boot_id(), set_aside)
    await state.open()
    locks = ClaimLocks(data_dir / _LOCK_FILE)
    files = ClaimFiles(
        CdiDirectory(config.cdi_dir, CdiNames(driver.name)),
        MetadataDirectory(data_dir / _METADATA_DIR, driver.name),
        observe,
    )
    return Stores(state, files, locks), PublishElection(data_dir / ELECTION_FILE)


def _observe(hooks: Hooks, status: StatusWriter, step: CrashPoint, uid: str) -> None:
    hooks.observe(step, uid)
    if step is CrashPoint.UNPREPARE_FINISHED:
        status.forget(uid)
        hooks.unprepared(uid)


def _reconciler(environment: Environment, claims: ClaimContext) -> Reconciler:
    def state_lost_claims(told: str) -> None:
        environment.announcements.of_node("StateLostClaims", told)

    failures = BackgroundFailures(environment.metrics)
    known = NodeClaims(environment.client, claims.calls, claims.node, failures)
    return Reconciler(claims, known, Rebuilder(claims, known, failures, state_lost_claims), failures)


def _registration(environment: Environment, election: PublishElection, health: HealthMonitor) -> Registration:
    def answered(accepted: bool) -> None:  # noqa: FBT001 - a callback
        environment.metrics.set_registered(registered=accepted)
        if accepted:
            election.join()
        else:
            election.leave()
            environment.announcements.of_node("RegistrationRefused", registration.missing)

    registration = Registration(
        environment.driver.name,
        environment.sockets.service,
        environment.config.registry_dir,
        PLUGIN_VERSIONS + (HEALTH_VERSIONS if health.supported else ()),
        answered,
    )
    return registration


def _services(service: ClaimService, health: HealthMonitor, probe: Probe, node: str) -> Mapping[str, Method]:
    return {**claim_methods(service), **health_methods(health, node), **probe.methods()}
