"""`Plugin`: one driver beside the kubelet, from start to stop.

Start: prepared state, service socket, publisher (idle), registration socket. What is published before the
kubelet has accepted the registration attracts pods that then fail, so the publisher runs from that moment on.
Stop: the registration socket goes first, calls in flight end, and nothing that is prepared or published is
taken back: the next instance takes over.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from dradriver.aio.tasks import Background, end
from dradriver.driver.base import Driver
from dradriver.driver.code_places import at, defined_at
from dradriver.errors import DriverError, UsageError
from dradriver.model.names import driver_name
from dradriver.model.resource.pool import Pool
from dradriver.node.api import Api
from dradriver.node.claims.claim_status import StatusWriter
from dradriver.node.claims.crash_points import Observer, Step, unobserved
from dradriver.node.claims.metadata_updates import MetadataUpdates
from dradriver.node.claims.prepare import Preparation, Stores
from dradriver.node.claims.reconcile import Reconciler
from dradriver.node.config import DRIVER_DIR, PluginConfig
from dradriver.node.config_maps import read_config_map
from dradriver.node.devices.discovery import Discovery
from dradriver.node.devices.inventory import Inventory
from dradriver.node.devices.publish_election import FILE_NAME as ELECTION_FILE
from dradriver.node.devices.publish_election import PublishElection
from dradriver.node.devices.publishing import PublisherMaker, publish_in_turn, publisher_of, recorder_of
from dradriver.node.devices.shared_pools import look_up_pools
from dradriver.node.driver_calls import DriverCalls
from dradriver.node.errors import RegistrationError, StateError
from dradriver.node.files.cdi import CdiDirectory, CdiNames
from dradriver.node.files.claim_files import ClaimFiles
from dradriver.node.files.metadata import MetadataDirectory
from dradriver.node.kubelet.dra_service import ClaimService, claim_methods
from dradriver.node.kubelet.health_service import HealthMonitor, health_methods
from dradriver.node.kubelet.in_flight import Traffic
from dradriver.node.kubelet.probe_service import Probe
from dradriver.node.kubelet.registration import HEALTH_VERSIONS, PLUGIN_VERSIONS, Registration
from dradriver.node.kubelet.servers import SocketServer
from dradriver.node.kubelet.sockets import Sockets
from dradriver.node.reporting.claim_outcomes import Outcomes
from dradriver.node.reporting.events import Announcements
from dradriver.node.reporting.instance_file import InstanceFile, remove_left_instances
from dradriver.node.reporting.metrics import Metrics
from dradriver.node.reporting.pool_reports import PoolNews
from dradriver.node.reporting.readiness import Readiness
from dradriver.node.state.boot import current_boot_id
from dradriver.node.state.database import FILE_NAME, read_only
from dradriver.node.state.locks import ClaimLocks
from dradriver.node.state.records import PreparedClaimRecord
from dradriver.node.state.rows import Rows
from dradriver.node.state.store import State
from dradriver.rpc import Method

__all__ = ["Plugin"]

_log = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 15.0
"""A kubelet that is there registers a driver within a second or two; later the log says where to look."""

_METADATA_DIR: Final = "dra-device-metadata"
_LOCK_FILE: Final = "claims.lock"
_QUIET_SECONDS: Final = 1.0
"""Longer than a kubelet takes from picking an instance to calling it."""

_SHUTDOWN_SECONDS: Final = 1.0
"""What shutdown() gets when calls in flight have used up the grace."""


class Plugin:
    """Runs one driver on one node.

    `await start()`, then `await stop()`; or `await run(stop_event)` for both. An instance is started once.

    Args:
        driver: the author's driver.
        client: the API server (`dradriver.kube.Client`).
        config: where and how.
        publisher: makes the publisher (tests); it gets a function that asks the driver for its fallback.
        observe: is told of each side effect on claims (tests).

    Raises:
        UsageError: the driver's name is not a DNS subdomain, or no socket fits into the directories.
    """

    def __init__(
        self,
        driver: Driver,
        client: Api,
        config: PluginConfig,
        *,
        publisher: PublisherMaker | None = None,
        observe: Observer = unobserved,
    ) -> None:
        if rule := driver_name(getattr(driver, "name", "")):
            raise UsageError(f"class {type(driver).__name__}: its name is not that of a driver: {rule}")
        self.config = config
        self.sockets = Sockets.of(driver.name, config.registry_dir, config.plugins_dir, config.pod_uid)
        self.metrics = Metrics(driver.name)
        self._driver = driver
        self._client = client
        origin = at(defined_at(driver.discover))
        self._make_publisher = publisher or publisher_of(client, driver.name, config.node_name, origin)
        self._observe = observe
        self._data_dir = config.data_dir(driver.name)
        self._driver_dir = self._data_dir / DRIVER_DIR
        self._restart_reasons: asyncio.Queue[str] = asyncio.Queue()
        self._background = Background()
        self._traffic = Traffic()
        self._instance_file = InstanceFile(
            self._data_dir, self.sockets.service, lambda: self.readiness, self.metrics
        )
        self._serving = False
        self._stopped = False
        self.announcements = Announcements(recorder_of(client, driver.name, config.node_name), config.node_name)
        self._readiness = Readiness(
            lambda: self._registration.missing,
            lambda: self._inventory.failure,
            lambda: self._turns.waiting,
        )

    async def start(self) -> None:
        """Opens the state, listens, and begins to discover, to collect and, once registered, to publish.

        Raises:
            UsageError: a directory or socket can't be used.
            StateError: the prepared state can't be opened or made.
        """
        config, driver = self.config, self._driver
        await asyncio.to_thread(self._make_directories)
        driver.node_name = config.node_name
        driver.data_dir = self._driver_dir
        self._calls = DriverCalls(driver)
        self._inventory = Inventory()
        await self._open_stores()
        self._probe = Probe()
        self._health = HealthMonitor(driver, config.node_name, self.metrics)
        self._registration = Registration(
            driver.name,
            self.sockets.service,
            config.registry_dir,
            PLUGIN_VERSIONS + (HEALTH_VERSIONS if self._health.supported else ()),
            self._registered,
        )
        self._service_server = SocketServer(self.sockets.service, self._services())
        self._registrar_server = SocketServer(self.sockets.registrar, self._registration.methods())
        try:
            await self._service_server.start()
            self._probe.serving()
            self._start_background()
            await self._registrar_server.start()
            self._serving = True
        except BaseException:
            await self.stop(0)
            raise

    @property
    def readiness(self) -> str:
        """What keeps pods that are sent here from being prepared; empty when nothing does."""
        if not (self._serving or self._stopped):
            return "the driver is starting"
        return self._readiness.missing

    async def liveness(self) -> str:
        """What only another start would help against; empty when nothing is wrong. Waits for no claim."""
        if self._stopped or not self._serving:
            return ""
        paths = (self.sockets.service, self.sockets.registrar)
        gone = await asyncio.to_thread(lambda: [str(path) for path in paths if not path.exists()])
        return f"the kubelet can't call: {' and '.join(gone)} is gone" if gone else ""

    async def wait_registered(self, timeout: float) -> None:
        """Waits until the kubelet has accepted the driver.

        Raises:
            RegistrationError: it has not within `timeout` seconds, and why, as far as can be known.
        """
        await self._registration.wait(timeout)

    async def run(self, stop: asyncio.Event, grace: float = 30.0) -> None:
        """Starts, works until `stop` is set, and stops.

        Raises:
            DraError: it can't start.
            Exception: a background task met a defect; the process should end and be started again.
        """
        await self.start()
        waiting = asyncio.create_task(stop.wait(), name="wait for stop")
        failing = asyncio.create_task(self._background.failure(), name="wait for failure")
        try:
            await asyncio.wait({waiting, failing}, return_when=asyncio.FIRST_COMPLETED)
            if failing.done():
                await failing
        finally:
            for task in (waiting, failing):
                task.cancel()
            await asyncio.gather(waiting, failing, return_exceptions=True)
            await self.stop(grace)

    async def stop(self, grace: float = 30.0) -> None:
        """Ends the plugin: calls in flight end within `grace` seconds; claims stay prepared.

        It serves until the kubelet has turned to another instance, where there is one (rolling update). What
        has not ended by then is adopted by the next instance.
        """
        if self._stopped:
            return
        self._stopped = True
        self._readiness.stopping()
        clock = asyncio.get_running_loop().time
        until = clock() + grace
        await self._traffic.quiet(_QUIET_SECONDS if self._turns.succeeded else 0.0, until)
        await self._registrar_server.stop(0)
        self._turns.leave()
        self._probe.stopping()
        self._health.close()
        await self._service_server.stop(max(0.0, until - clock()))
        await self.preparation.drain(max(0.0, until - clock()))
        await self._background.stop()
        await self._instance_file.remove()
        self._turns.close()
        await self.preparation.drain(0)  # what the background began meanwhile
        self._driver._on_rediscover = None  # noqa: SLF001 - the loop may be gone when it asks again
        self._driver._on_restart = None  # noqa: SLF001
        self._driver._on_update_metadata = None  # noqa: SLF001
        self._driver._on_read_config_map = None  # noqa: SLF001
        await self._shut_down(max(_SHUTDOWN_SECONDS, until - clock()))
        self.preparation.close()
        self._calls.close()
        await self._state.close()
        self._locks.close()

    def prepared(self) -> list[PreparedClaimRecord]:
        """The claims that are recorded on this node, by this or another instance; reads the file.

        Raises:
            StateError: it can't be read.
        """
        return read_only(self._data_dir / FILE_NAME)

    async def _shut_down(self, seconds: float) -> None:
        last = asyncio.create_task(self._calls.call(self._driver.shutdown), name="shutdown()")
        await end({last}, seconds)
        if not last.done() or last.cancelled():
            _log.error("driver %s: shutdown() has not ended within %.0f s", self._driver.name, seconds)
        elif error := last.exception():
            _log.error("%s", error)

    def _make_directories(self) -> None:
        try:
            self._driver_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"plugin data directory {self._data_dir} can't be made: {error}") from error
        try:
            for path in self.sockets.stale():
                _log.info("removing %s, on which nobody listens", path)
                path.unlink(missing_ok=True)
            remove_left_instances(self._data_dir)
        except OSError as error:
            raise UsageError(f"sockets that nobody listens on can't be removed: {error}") from error

    async def _open_stores(self) -> None:
        config, driver = self.config, self._driver
        self._loop = asyncio.get_running_loop()
        boot_id = config.boot_id or current_boot_id()
        self._state = State(self._data_dir / FILE_NAME, boot_id, self._set_aside)
        await self._state.open()
        self._locks = ClaimLocks(self._data_dir / _LOCK_FILE)
        self._turns = PublishElection(self._data_dir / ELECTION_FILE)
        self._files = ClaimFiles(
            CdiDirectory(config.cdi_dir, CdiNames(driver.name)),
            MetadataDirectory(self._data_dir / _METADATA_DIR, driver.name),
            self._observe,
        )
        self._status = StatusWriter(
            self._client, driver.name, self.metrics, config.node_name, self._status_refused
        )
        stores = Stores(self._state, self._files, self._locks)
        self.preparation = Preparation(
            self._calls,
            config.node_name,
            self._inventory,
            stores,
            deadline=config.prepare_deadline,
            observe=self._observed,
            on_prepared=self._status.want,
            look_up_pools=look_up_pools(self._client, driver.name),
        )
        driver._on_read_config_map = partial(read_config_map, self._client)  # noqa: SLF001 - the SDK's end of it
        updates = MetadataUpdates(driver.name, stores, self._status.want)
        driver._on_update_metadata = updates.update  # noqa: SLF001 - the SDK's end of update_metadata()
        self._reconciler = Reconciler(
            self._client,
            self._calls,
            config.node_name,
            self._state,
            self._files,
            self.preparation,
            self.metrics,
            lambda told: self.announcements.of_node("StateLostClaims", told),
        )
        self.metrics.show_recorded(self.prepared)

    def _services(self) -> dict[str, Method]:
        claims = ClaimService(
            self._client,
            self.preparation,
            self.metrics,
            Outcomes(self.announcements),
            self.config.prepare_deadline,
            self._reconciler.nudge,
            self._traffic,
        )
        health = health_methods(self._health, self.config.node_name)
        return {**claim_methods(claims), **health, **self._probe.methods()}

    def _start_background(self) -> None:
        config = self.config
        self._pool_news = PoolNews(self._data_dir, self.metrics, self._readiness, self.announcements)
        discovery = Discovery(
            self._calls,
            config.node_name,
            self._inventory,
            self._want,
            self.metrics,
            config.rediscover_delay,
        )
        self._publisher = self._make_publisher(discovery.fallback, self._pool_news)
        self._driver._on_rediscover = discovery.rediscover  # noqa: SLF001 - the SDK's end of rediscover()
        start = self._background.start
        start("discover", discovery.run())
        start("reconcile", self._reconciler.run(config.collect_seconds, config.sweep_seconds))
        start("claim status", self._write_statuses())
        start("events", self._write_events())
        start("publish", self._publish_when_registered())
        start("instance status", self._instance_file.run())
        if self._health.supported:
            start("health", self._health.run())
        self._driver._on_restart = self._restart_asked  # noqa: SLF001 - the SDK's end of restart()
        start("restart", self._restart())

    def _restart_asked(self, reason: str) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop may be gone
            self._loop.call_soon_threadsafe(self._restart_reasons.put_nowait, reason)

    async def _restart(self) -> None:
        reason = await self._restart_reasons.get()
        raise DriverError(f"driver {self._driver.name} wants to be started again: {reason}")

    def _want(self, pools: Sequence[Pool]) -> None:
        self._publisher.want(pools)
        self._readiness.want([pool.name for pool in pools])

    def _registered(self, accepted: bool) -> None:  # noqa: FBT001 - a callback
        self.metrics.set_registered(registered=accepted)
        if accepted:
            self._turns.join()
        else:
            self._turns.leave()
            self.announcements.of_node("RegistrationRefused", self._registration.missing)

    def _set_aside(self, path: Path) -> None:
        """From the state's thread."""
        told = f"the prepared state was unreadable, set aside as {path}, and is rebuilt"
        with suppress(RuntimeError):  # the loop may be gone
            self._loop.call_soon_threadsafe(self.announcements.of_node, "StateSetAside", told)

    def _observed(self, step: Step, uid: str) -> None:
        self._observe(step, uid)
        if step is Step.UNPREPARE_FINISHED:
            self._status.forget(uid)

    def _status_refused(self, message: str) -> None:
        self.announcements.of_node("DeviceStatusRefused", message)

    async def _write_events(self) -> None:
        async with self.announcements.recorder:
            await asyncio.Event().wait()

    async def _publish_when_registered(self) -> None:
        try:
            await self._registration.wait(_PATIENCE_SECONDS)
        except RegistrationError as error:
            _log.warning("%s (nothing is published until then)", error)
            self.announcements.of_node("NotRegistered", f"{error} (nothing is published until then)")
            await self._registration.accepted.wait()
        await self._turns.run(self._turn)

    async def _turn(self) -> None:
        """What only one of several instances does, until it is cancelled."""
        await publish_in_turn(self._publisher, self._pool_news)

    async def _write_statuses(self) -> None:
        try:
            # Those of a process that died before it wrote them; writing the same again changes nothing.
            for row in await self._state.read(Rows.all):
                if row.record.answers:
                    self._status.want(row.record)
        except StateError as error:
            _log.warning("statuses of claims prepared before are not written: %s", error)
        await self._status.run()
