"""`Plugin`: one driver beside the kubelet, from start to stop.

Start order: prepared state, service socket, publisher (idle), registration socket. The publisher begins only
after the kubelet has accepted the registration: devices that are published earlier attract pods that then fail.
At stop the registration socket is removed first, and calls in flight end. Prepared and published devices stay,
because the next instance takes over.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from dradriver.aio.tasks import Background, end
from dradriver.driver.base import Driver
from dradriver.driver.code_places import at, defined_at
from dradriver.errors import DriverError, UsageError
from dradriver.model.names import driver_name
from dradriver.model.resource.pool import Pool
from dradriver.node.api import Api
from dradriver.node.composition import Environment, Hooks, NodeParts, compose
from dradriver.node.config import DRIVER_DIR, PluginConfig
from dradriver.node.crash_points import Observer, unobserved
from dradriver.node.devices.publishing import PublisherMaker, publish_in_turn, publisher_of, recorder_of
from dradriver.node.errors import RegistrationError, StateError
from dradriver.node.kubelet.sockets import Sockets
from dradriver.node.reporting.events import Announcements
from dradriver.node.reporting.instance_file import remove_left_instances
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.node.state.database import FILE_NAME, read_only
from dradriver.node.state.records import PreparedClaimRecord
from dradriver.node.state.rows import Rows

__all__ = ["Plugin"]

_log = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 15.0
"""A running kubelet registers a driver within a second or two. After this time the log names likely causes."""

_QUIET_SECONDS: Final = 1.0
"""Longer than a kubelet needs from the choice of an instance to the call."""

_SHUTDOWN_SECONDS: Final = 1.0
"""Time for shutdown() when calls in flight have used up the grace."""


class Plugin:
    """Runs one driver on one node.

    Call `await start()`, then `await stop()`; or `await run(stop_event)` for both. An instance is started once.

    Args:
        driver: the author's driver.
        client: the API server (`dradriver.kube.Client`).
        config: settings of the process.
        publisher: creates the publisher (tests). It gets a function that calls the driver's `fallback`.
        observe: called after each side effect on claims (tests).

    Raises:
        UsageError: the driver's name is not a DNS subdomain, or the directories leave no room for a socket's
            path.
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
        self.metrics = NodeMetrics(driver.name)
        self.announcements = Announcements(recorder_of(client, driver.name, config.node_name), config.node_name)
        self._driver = driver
        self._observe = observe
        self._environment = Environment(
            driver=driver,
            client=client,
            config=config,
            sockets=self.sockets,
            metrics=self.metrics,
            announcements=self.announcements,
            make_publisher=publisher
            or publisher_of(client, driver.name, config.node_name, at(defined_at(driver.discover))),
        )
        self._background = Background()
        self._parts: NodeParts | None = None
        self._serving = False
        self._stopped = False

    @property
    def parts(self) -> NodeParts:
        """Return the running parts.

        Raises:
            UsageError: the plugin has not started yet.
        """
        if self._parts is None:
            raise UsageError(f"the plugin of driver {self._driver.name} has not started yet")
        return self._parts

    async def start(self) -> None:
        """Open the state, listen, and begin to discover, to reconcile and, once registered, to publish.

        Raises:
            UsageError: a directory or socket cannot be used.
            StateError: the prepared state cannot be opened or created.
        """
        await asyncio.to_thread(self._make_directories)
        hooks = Hooks(
            observe=self._observe,
            unprepared=self._unprepared,
            discovered=self._want,
            readiness=lambda: self.readiness,
        )
        self._parts = parts = await compose(self._environment, hooks)
        self.metrics.show_recorded(self.prepared)
        try:
            await parts.service_server.start()
            parts.probe.serving()
            self._start_background(parts)
            await parts.registrar_server.start()
            self._serving = True
        except BaseException:
            await self.stop(0)
            raise

    @property
    def readiness(self) -> str:
        """Return the reason why pods on this node cannot be prepared; empty if there is none."""
        if not (self._serving or self._stopped):
            return "the driver is starting"
        return self.parts.readiness.missing

    async def liveness(self) -> str:
        """Return the error that only a restart can fix; empty if there is none. It waits for no claim."""
        if self._stopped or not self._serving:
            return ""
        paths = (self.sockets.service, self.sockets.registrar)
        gone = await asyncio.to_thread(lambda: [str(path) for path in paths if not path.exists()])
        return f"the kubelet can't call: {' and '.join(gone)} is gone" if gone else ""

    async def wait_registered(self, timeout: float) -> None:
        """Wait until the kubelet has accepted the driver.

        Raises:
            RegistrationError: not accepted within `timeout` seconds. The message has the reason as far as it is
                known.
        """
        await self.parts.registration.wait(timeout)

    async def run(self, stop: asyncio.Event, grace: float = 30.0) -> None:
        """Start, work until `stop` is set, and stop.

        Raises:
            DraError: the plugin cannot start.
            Exception: a background task failed because of a defect. The process should end and be restarted.
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
        """Stop the plugin: calls in flight end within `grace` seconds; claims stay prepared.

        If another instance is registered (rolling update), this one serves until the kubelet calls the other
        one. The next instance continues the work that has not ended by then.
        """
        if self._stopped:
            return
        self._stopped = True
        parts = self.parts
        parts.readiness.stopping()
        clock = asyncio.get_running_loop().time
        until = clock() + grace
        await parts.traffic.quiet(_QUIET_SECONDS if parts.election.succeeded else 0.0, until)
        await parts.registrar_server.stop(0)
        parts.election.leave()
        parts.probe.stopping()
        parts.health.close()
        await parts.service_server.stop(max(0.0, until - clock()))
        await parts.claims.drain(max(0.0, until - clock()))
        await self._background.stop()
        await parts.instance_file.remove()
        parts.election.close()
        await parts.claims.drain(0)  # work that the background began meanwhile
        parts.context.close()
        await self._shut_down(parts, max(_SHUTDOWN_SECONDS, until - clock()))
        parts.claims.close()
        parts.calls.close()
        await parts.stores.state.close()
        parts.stores.locks.close()

    def prepared(self) -> list[PreparedClaimRecord]:
        """Return the claims that this or another instance has recorded on this node; reads the file.

        Raises:
            StateError: the file cannot be read.
        """
        return read_only(self._environment.data_dir / FILE_NAME)

    async def _shut_down(self, parts: NodeParts, seconds: float) -> None:
        last = asyncio.create_task(parts.calls.call(self._driver.shutdown), name="shutdown()")
        await end({last}, seconds)
        if not last.done() or last.cancelled():
            _log.error("driver %s: shutdown() has not ended within %.0f s", self._driver.name, seconds)
        elif error := last.exception():
            _log.error("%s", error)

    def _make_directories(self) -> None:
        data_dir = self._environment.data_dir
        try:
            (data_dir / DRIVER_DIR).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"plugin data directory {data_dir} can't be made: {error}") from error
        try:
            for path in self.sockets.stale():
                _log.info("removing %s, on which nobody listens", path)
                path.unlink(missing_ok=True)
            remove_left_instances(data_dir)
        except OSError as error:
            raise UsageError(f"sockets that nobody listens on can't be removed: {error}") from error

    def _start_background(self, parts: NodeParts) -> None:
        start, config = self._background.start, self.config
        start("discover", parts.discovery.run())
        start("reconcile", parts.reconciler.run(config.collect_seconds, config.sweep_seconds))
        start("claim status", self._write_statuses(parts))
        start("events", self._write_events())
        start("publish", self._publish_when_registered(parts))
        start("instance status", parts.instance_file.run())
        if parts.health.supported:
            start("health", parts.health.run())
        start("restart", self._restart(parts))

    async def _restart(self, parts: NodeParts) -> None:
        reason = await parts.restarts.get()
        raise DriverError(f"driver {self._driver.name} wants to be started again: {reason}")

    def _want(self, pools: Sequence[Pool]) -> None:
        """Publish the discovered pools."""
        self.parts.publisher.want(pools)
        self.parts.readiness.want([pool.name for pool in pools])

    def _unprepared(self, uid: str) -> None:
        """Handle the end of a claim; a hook for subclasses."""

    async def _write_events(self) -> None:
        async with self.announcements.recorder:
            await asyncio.Event().wait()

    async def _publish_when_registered(self, parts: NodeParts) -> None:
        try:
            await parts.registration.wait(_PATIENCE_SECONDS)
        except RegistrationError as error:
            _log.warning("%s (nothing is published until then)", error)
            self.announcements.of_node("NotRegistered", f"{error} (nothing is published until then)")
            await parts.registration.accepted.wait()
        await parts.election.run(self._turn)

    async def _turn(self) -> None:
        """Do the work of the elected instance, until it is canceled."""
        await publish_in_turn(self.parts.publisher, self.parts.news)

    async def _write_statuses(self, parts: NodeParts) -> None:
        try:
            # A process may have died before it wrote these. Writing the same status again changes nothing.
            for row in await parts.stores.state.read(Rows.all):
                if row.record.answers:
                    parts.status.want(row.record)
        except StateError as error:
            _log.warning("statuses of claims prepared before are not written: %s", error)
        await parts.status.run()
