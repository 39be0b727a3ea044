"""Build the parts of a `Plugin` in order: stores, claims, devices, services.

Each part receives its dependencies when it is built. If a part needs a part that is built later, it receives a
function that uses the later part. The function is called only after all parts exist.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, cast

from dradriver.driver.base import Driver
from dradriver.driver.binding import NodeBindingDriver
from dradriver.driver.claim import Claim
from dradriver.kube.client import Client
from dradriver.model.resource.pool import Pool
from dradriver.node.api import Api
from dradriver.node.claims.claim_status import StatusWriter
from dradriver.node.claims.context import ClaimContext, Stores, note_nothing
from dradriver.node.claims.lookup import ClaimLookup, NodeClaims
from dradriver.node.claims.metadata_updates import MetadataUpdates
from dradriver.node.claims.rebuild import Rebuilder
from dradriver.node.claims.reconcile import Reconciler
from dradriver.node.config import DRIVER_DIR, PluginConfig, read_boot_id
from dradriver.node.crash_points import CrashPoint, Observer
from dradriver.node.devices.attachment_wait import ClaimChanges
from dradriver.node.devices.discovery import Discovery
from dradriver.node.devices.inventory import DiscoveredDevices
from dradriver.node.devices.publish_election import FILE_NAME as ELECTION_FILE
from dradriver.node.devices.publish_election import PublishElection
from dradriver.node.devices.publishing import NodePublisher, PublisherFactory
from dradriver.node.devices.shared_pools import look_up_pools
from dradriver.node.driver_calls import DriverCalls
from dradriver.node.driver_context import ContextRequests, ProcessContext, read_config_map
from dradriver.node.files.cdi import CdiDirectory, CdiNames
from dradriver.node.files.claim_files import ClaimFiles
from dradriver.node.files.metadata import MetadataDirectory
from dradriver.node.kubelet.dra_service import ClaimService, claim_methods
from dradriver.node.kubelet.health_service import HealthMonitor, health_methods
from dradriver.node.kubelet.in_flight import CallsInFlight
from dradriver.node.kubelet.probe_service import Probe
from dradriver.node.kubelet.registration import HEALTH_VERSIONS, PLUGIN_VERSIONS, Registration
from dradriver.node.kubelet.server import SocketServer
from dradriver.node.kubelet.sockets import Sockets
from dradriver.node.reporting.background_failures import BackgroundFailures
from dradriver.node.reporting.claim_outcomes import ClaimOutcomes
from dradriver.node.reporting.events import WarningEvents
from dradriver.node.reporting.instance_file import InstanceFile
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.node.reporting.pool_reports import PoolReporter
from dradriver.node.reporting.readiness import ProcessReadiness
from dradriver.node.state.database import FILE_NAME
from dradriver.node.state.locks import ClaimLocks
from dradriver.node.state.records import ClaimRef
from dradriver.node.state.store import StateStore
from dradriver.node.usage.writer import NoteWriter

__all__ = ["Environment", "Hooks", "NodeParts", "compose"]

_METADATA_DIR: Final = "dra-device-metadata"
_LOCK_FILE: Final = "claims.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The inputs from which the parts are built.

    Attributes:
        driver: the author's driver.
        client: the client of the API server.
        config: settings of the process.
        sockets: the paths of the sockets.
        metrics: the metrics of the plugin.
        events: writes Kubernetes events.
        create_publisher: creates the publisher.
    """

    driver: Driver
    client: Api
    config: PluginConfig
    sockets: Sockets
    metrics: NodeMetrics
    events: WarningEvents
    create_publisher: PublisherFactory

    @property
    def data_dir(self) -> Path:
        """Return the plugin's data directory."""
        return self.config.data_dir(self.driver.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Callbacks of the owner of the parts (`Plugin`).

    Attributes:
        observe: called after each side effect on a claim.
        on_unprepared: called with the UID of each claim that has just been unprepared.
        on_discovered: called with the pools that each `discover()` returned. It passes them to the publisher.
        readiness: returns why the instance is not ready. Empty if it is ready.
    """

    observe: Observer
    on_unprepared: Callable[[str], None]
    on_discovered: Callable[[Sequence[Pool]], None]
    readiness: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    """The parts of a `Plugin`; none of them runs yet.

    Attributes:
        calls: calls the driver.
        inventory: the discovered devices.
        stores: the prepared state, the claims' files and locks.
        election: decides which instance of the driver publishes.
        status: writes `status.devices` of claims.
        claims: prepares and unprepares claims.
        note: writes the usage note. None: the driver has no `node_releases`.
        reconciler: rebuilds the state, unprepares claims that are gone, and restores lost files.
        discovery: calls the driver's `discover()`.
        publisher: publishes the devices while this instance is elected.
        pool_reporter: reports the state of the published pools.
        context: serves the requests of the driver to the SDK.
        restarts: the reasons that the driver gave when it requested a restart.
        health: watches the driver's health.
        calls_in_flight: counts the kubelet's calls.
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
    note: NoteWriter | None
    reconciler: Reconciler
    discovery: Discovery
    publisher: NodePublisher
    pool_reporter: PoolReporter
    context: ProcessContext
    restarts: "asyncio.Queue[str]"
    health: HealthMonitor
    calls_in_flight: CallsInFlight
    probe: Probe
    registration: Registration
    service_server: SocketServer
    registrar_server: SocketServer
    readiness: ProcessReadiness
    instance_file: InstanceFile


async def compose(environment: Environment, hooks: Hooks) -> NodeParts:
    """Open the stores, build the parts in order, and set the driver's context.

    If a step fails, the stores that were opened before the failure are closed.

    Args:
        environment: the inputs. The directories must exist.
        hooks: the owner's callbacks.

    Returns:
        The parts. The caller must close the stores and the election.

    Raises:
        StateError: the prepared state or a lock file cannot be opened or created.
    """
    async with AsyncExitStack() as opened:
        stores, election = await _open_stores(environment, hooks.observe, opened)
        parts = _build(environment, hooks, stores, election)
        opened.pop_all()
    environment.driver.set_context(parts.context)
    return parts


def _build(environment: Environment, hooks: Hooks, stores: Stores, election: PublishElection) -> NodeParts:
    driver, client, config = environment.driver, environment.client, environment.config
    metrics, events, data_dir = environment.metrics, environment.events, environment.data_dir
    node = config.node_name

    calls, inventory = DriverCalls(driver), DiscoveredDevices()

    def on_rejected(message: str) -> None:
        events.warn_of_node("DeviceStatusRefused", message)

    status = StatusWriter(client, driver.name, metrics, node, on_rejected)
    note = _note_writer(environment, stores.state, inventory)
    claims = ClaimContext(
        calls=calls,
        node=node,
        inventory=inventory,
        stores=stores,
        deadline=config.prepare_deadline,
        observe=partial(_observe, hooks, status, note),
        on_prepared=status.schedule,
        note_use=note.note_use if note else note_nothing,
        look_up_pools=look_up_pools(client, driver.name),
        changes=ClaimChanges(ClaimLookup(client).get_by_uid),
    )
    reconciler = _reconciler(environment, claims)

    discovery = Discovery(calls, node, inventory, hooks.on_discovered, metrics, config.rediscover_delay)
    restarts: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def restart(reason: str) -> None:
        loop.call_soon_threadsafe(restarts.put_nowait, reason)

    def warn(claim: Claim, message: str) -> None:
        ref = ClaimRef(uid=claim.uid, namespace=claim.namespace, name=claim.name)
        loop.call_soon_threadsafe(events.warn_of_claim, ref, "DriverWarning", message)

    context = ProcessContext(
        ContextRequests(
            rediscover=discovery.rediscover,
            restart=restart,
            warn=warn,
            read_config_map=partial(read_config_map, client),
            update_metadata=MetadataUpdates(driver.name, stores, status.schedule).update,
        ),
        node,
        data_dir / DRIVER_DIR,
    )
    health, calls_in_flight, probe = HealthMonitor(driver, node, metrics), CallsInFlight(), Probe()
    registration = _registration(environment, election, health)
    readiness = ProcessReadiness(
        lambda: registration.missing, lambda: inventory.failure, lambda: election.is_waiting
    )
    pool_reporter = PoolReporter(data_dir, metrics, readiness, events)
    publisher = environment.create_publisher(discovery.fallback, pool_reporter)

    outcomes, deadline = ClaimOutcomes(events), config.prepare_deadline
    service = ClaimService(
        client, claims, metrics, outcomes, deadline, reconciler.request_collection, calls_in_flight
    )
    services = {**claim_methods(service), **health_methods(health, node), **probe.methods()}
    return NodeParts(
        calls=calls,
        inventory=inventory,
        stores=stores,
        election=election,
        status=status,
        claims=claims,
        note=note,
        reconciler=reconciler,
        discovery=discovery,
        publisher=publisher,
        pool_reporter=pool_reporter,
        context=context,
        restarts=restarts,
        health=health,
        calls_in_flight=calls_in_flight,
        probe=probe,
        registration=registration,
        service_server=SocketServer(environment.sockets.service, services),
        registrar_server=SocketServer(environment.sockets.registrar, registration.methods()),
        readiness=readiness,
        instance_file=InstanceFile(data_dir, environment.sockets.service, hooks.readiness, metrics),
    )


async def _open_stores(
    environment: Environment, observe: Observer, opened: AsyncExitStack
) -> tuple[Stores, PublishElection]:
    config, driver, data_dir = environment.config, environment.driver, environment.data_dir
    loop = asyncio.get_running_loop()

    def set_aside(path: Path) -> None:
        """Report that the state file was set aside; called in the thread of the state store."""
        message = f"the prepared state was unreadable: it was renamed to {path} and is rebuilt"
        with suppress(RuntimeError):  # the loop may be closed
            loop.call_soon_threadsafe(environment.events.warn_of_node, "StateSetAside", message)

    state = StateStore(data_dir / FILE_NAME, config.boot_id or read_boot_id(), set_aside)
    await state.open()
    opened.push_async_callback(state.close)
    locks = ClaimLocks(data_dir / _LOCK_FILE)
    opened.callback(locks.close)
    files = ClaimFiles(
        CdiDirectory(config.cdi_dir, CdiNames(driver.name)),
        MetadataDirectory(data_dir / _METADATA_DIR, driver.name),
        observe,
    )
    election = PublishElection(data_dir / ELECTION_FILE)
    opened.callback(election.close)
    return Stores(state, files, locks), election


def _note_writer(
    environment: Environment, state: StateStore, inventory: DiscoveredDevices
) -> NoteWriter | None:
    driver = environment.driver
    if not (isinstance(driver, NodeBindingDriver) and driver.node_releases):
        return None
    return NoteWriter(
        cast(Client, environment.client),
        driver.name,
        environment.config.node_name,
        state=state,
        is_shared=lambda pool: bool(inventory.select_shared([pool])),
        on_error=lambda: environment.metrics.background_error("usage_note"),
    )


def _observe(hooks: Hooks, status: StatusWriter, note: NoteWriter | None, step: CrashPoint, uid: str) -> None:
    hooks.observe(step, uid)
    if step is CrashPoint.UNPREPARE_FINISHED:
        status.forget(uid)
        if note is not None:
            note.wake()
        hooks.on_unprepared(uid)


def _reconciler(environment: Environment, claims: ClaimContext) -> Reconciler:
    def on_lost(message: str) -> None:
        environment.events.warn_of_node("StateLostClaims", message)

    failures = BackgroundFailures(environment.metrics)
    node_claims = NodeClaims(environment.client, claims.calls, claims.node, failures)
    return Reconciler(claims, node_claims, Rebuilder(claims, node_claims, failures, on_lost), failures)


def _registration(environment: Environment, election: PublishElection, health: HealthMonitor) -> Registration:
    def on_status(accepted: bool) -> None:  # noqa: FBT001 - a callback
        environment.metrics.set_registered(registered=accepted)
        if accepted:
            election.join()
        else:
            election.leave()
            environment.events.warn_of_node("RegistrationRefused", registration.missing)

    registration = Registration(
        environment.driver.name,
        environment.sockets.service,
        environment.config.registry_dir,
        PLUGIN_VERSIONS + (HEALTH_VERSIONS if health.supported else ()),
        on_status,
    )
    return registration
