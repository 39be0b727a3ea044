"""`Plugin`: one driver beside the kubelet, from start to stop.

A start opens the prepared state, then the service socket, and then the registration socket. The publisher
begins only after the kubelet has accepted the registration: if devices were published earlier, the scheduler
could allocate them to pods that cannot start yet. A stop first waits for a moment without calls, then removes
the registration socket, and lets calls in flight end. Prepared and published devices stay, because the next
instance takes over.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from dradriver.aio.tasks import Background, end
from dradriver.driver.base import Driver
from dradriver.driver.source_locations import find_definition, format_location
from dradriver.errors import DriverError, UsageError
from dradriver.model.names import driver_name
from dradriver.model.resource.pool import Pool
from dradriver.node.api import Api
from dradriver.node.composition import Environment, Hooks, NodeParts, compose
from dradriver.node.config import DRIVER_DIR, PluginConfig
from dradriver.node.crash_points import Observer, observe_nothing
from dradriver.node.devices.publishing import (
    PublisherFactory,
    create_recorder,
    publish_while_elected,
    publisher_factory,
)
from dradriver.node.errors import RegistrationError, StateError
from dradriver.node.kubelet.sockets import Sockets
from dradriver.node.reporting.events import WarningEvents
from dradriver.node.reporting.instance_file import remove_stale_instances
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.node.state.database import FILE_NAME, read_rows
from dradriver.node.state.records import PreparedClaimRecord
from dradriver.node.state.rows import Rows

__all__ = ["Plugin"]

_log = logging.getLogger(__name__)

_REGISTRATION_SECONDS: Final = 15.0
"""A running kubelet registers a driver within two seconds. After this time, likely causes are logged."""

_QUIET_SECONDS: Final = 1.0
"""Longer than the time between a kubelet's selection of an instance and its call of that instance."""


class Plugin:
    """Runs one driver on one node.

    Call `await start()` and, at the end, `await stop()`. Or call `await run(stop_event)`, which does both. An
    instance can be started only once.

    Args:
        driver: the author's driver.
        client: the API server (`dradriver.kube.Client`).
        config: settings of the process.
        publisher: creates the publisher, for tests. It receives a function that calls the driver's `fallback`,
            and a function that receives each status.
        observe: called after each side effect on a claim, for tests.

    Raises:
        UsageError: the driver's name is not a DNS subdomain, or a directory's path is too long for a socket in
            it.
    """

    def __init__(
        self,
        driver: Driver,
        client: Api,
        config: PluginConfig,
        *,
        publisher: PublisherFactory | None = None,
        observe: Observer = observe_nothing,
    ) -> None:
        if rule := driver_name(getattr(driver, "name", "")):
            raise UsageError(f"class {type(driver).__name__}: name: {rule}")
        self.config = config
        self.sockets = Sockets.of(driver.name, config.registry_dir, config.plugins_dir, config.pod_uid)
        self.metrics = NodeMetrics(driver.name)
        self.events = WarningEvents(create_recorder(client, driver.name, config.node_name), config.node_name)
        self._driver = driver
        self._observe = observe
        self._environment = Environment(
            driver=driver,
            client=client,
            config=config,
            sockets=self.sockets,
            metrics=self.metrics,
            events=self.events,
            create_publisher=publisher
            or publisher_factory(
                client, driver.name, config.node_name, format_location(find_definition(driver.discover))
            ),
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
        """Open the state, open the sockets, and start the background tasks, such as discovery and publishing.

        Raises:
            UsageError: a directory or socket cannot be used.
            StateError: the prepared state cannot be opened or created.
        """
        await asyncio.to_thread(self._make_directories)
        hooks = Hooks(
            observe=self._observe,
            on_unprepared=self._on_unprepared,
            on_discovered=self._publish_pools,
            readiness=lambda: self.readiness,
        )
        self._parts = parts = await compose(self._environment, hooks)
        self.metrics.show_recorded(self.prepared)
        try:
            await parts.service_server.start()
            parts.probe.set_serving()
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
        """Return the error that only a restart can fix; empty if there is none.

        This method does not wait for claims.
        """
        if self._stopped or not self._serving:
            return ""
        paths = (self.sockets.service, self.sockets.registrar)
        gone = await asyncio.to_thread(lambda: [str(path) for path in paths if not path.exists()])
        return f"the kubelet cannot call the driver: {' and '.join(gone)} does not exist" if gone else ""

    async def run(self, stop: asyncio.Event, grace: float = 30.0) -> None:
        """Start the plugin, run it until `stop` is set, and stop it.

        Args:
            stop: set by the caller, for example on SIGTERM.
            grace: seconds for calls in flight after `stop` is set.

        Raises:
            DraError: the plugin cannot start.
            Exception: a background task failed because of a defect. The caller should end the process, so that
                the process is restarted.
        """
        await self.start()
        try:
            await self._background.run_until(stop)
        finally:
            await self.stop(grace)

    async def stop(self, grace: float = 30.0) -> None:
        """Stop the plugin: calls in flight end within `grace` seconds; claims stay prepared.

        If another instance is registered (rolling update), this instance serves until the kubelet calls the
        other instance. The next instance continues the work that has not ended within `grace` seconds. A second
        call of `stop` is a no-op.

        Args:
            grace: seconds after which calls in flight are answered UNAVAILABLE, and work is abandoned.
        """
        if self._stopped:
            return
        self._stopped = True
        parts = self.parts
        parts.readiness.set_stopping()
        if parts.claims.changes is not None:
            parts.claims.changes.close()
        clock = asyncio.get_running_loop().time
        until = clock() + grace
        await parts.calls_in_flight.wait_quiet(_QUIET_SECONDS if parts.election.has_successor else 0.0, until)
        await parts.registrar_server.stop(0)
        parts.election.leave()
        parts.probe.set_not_serving()
        parts.health.close()
        await parts.service_server.stop(max(0.0, until - clock()))
        await parts.claims.drain(max(0.0, until - clock()))
        await self._background.stop()
        await parts.instance_file.remove()
        parts.election.close()
        await parts.claims.drain(0)  # operations that background tasks have begun in the meantime
        parts.context.close()
        await self._shut_down(parts, max(self._driver.shutdown_seconds, until - clock()))
        parts.claims.close()
        parts.calls.close()
        await parts.stores.state.close()
        parts.stores.locks.close()

    def prepared(self) -> list[PreparedClaimRecord]:
        """Return the claims that this or another instance of the driver has recorded on this node.

        Raises:
            StateError: the file cannot be read.
        """
        return read_rows(self._environment.data_dir / FILE_NAME)

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
            raise UsageError(f"plugin data directory {data_dir}: cannot be created: {error}") from error
        try:
            for path in self.sockets.find_stale():
                _log.info("removing socket %s: no process serves it", path)
                path.unlink(missing_ok=True)
            remove_stale_instances(data_dir)
        except OSError as error:
            raise UsageError(f"stale sockets cannot be removed: {error}") from error

    def _start_background(self, parts: NodeParts) -> None:
        start, config = self._background.start, self.config
        start("discover", parts.discovery.run())
        start("reconcile", parts.reconciler.run(config.collect_seconds, config.sweep_seconds))
        start("claim status", self._write_statuses(parts))
        if parts.note is not None:
            start("usage note", parts.note.run(parts.claims))
        start("events", self._write_events())
        start("publish", self._publish_when_registered(parts))
        start("instance status", parts.instance_file.run())
        if parts.health.supported:
            start("health", parts.health.run())
        start("restart", self._restart(parts))

    async def _restart(self, parts: NodeParts) -> None:
        reason = await parts.restarts.get()
        raise DriverError(f"driver {self._driver.name} requested a restart: {reason}")

    def _publish_pools(self, pools: Sequence[Pool]) -> None:
        """Publish the discovered pools."""
        self.parts.publisher.want(pools)
        self.parts.readiness.set_wanted([pool.name for pool in pools])

    def _on_unprepared(self, uid: str) -> None:
        """Do nothing; a subclass can override this to handle a claim that was unprepared."""

    async def _write_events(self) -> None:
        async with self.events.recorder:
            await asyncio.Event().wait()

    async def _publish_when_registered(self, parts: NodeParts) -> None:
        try:
            await parts.registration.wait(_REGISTRATION_SECONDS)
        except RegistrationError as error:
            _log.warning("%s (nothing is published until then)", error)
            self.events.warn_of_node("NotRegistered", f"{error} (nothing is published until then)")
            await parts.registration.accepted.wait()
        await parts.election.run(self._publish)

    async def _publish(self) -> None:
        """Do the work of the elected instance, until it is canceled."""
        await publish_while_elected(self.parts.publisher, self.parts.pool_reporter)

    async def _write_statuses(self, parts: NodeParts) -> None:
        try:
            # An earlier process may have died before it wrote these statuses. Writing a status again is a
            # no-op.
            for row in await parts.stores.state.read(Rows.all):
                if row.record.answers:
                    parts.status.schedule(row.record)
        except StateError as error:
            _log.warning("status.devices of claims that were prepared earlier is not written: %s", error)
        await parts.status.run()
