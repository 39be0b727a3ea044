"""Run a controller driver: allocate and deallocate claims in the control plane (KEP-3063), without a kubelet.

A driver that is also a `BindingDriver` has one process for both ways, so that one Lease covers both.

Only the leader works (`leading`). At the end, claims stay allocated. The next process continues from the claims
and records that it finds, even after a kill between any two writes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from dradriver.aio.tasks import Background, end
from dradriver.classic.controller import ClassicController
from dradriver.classic.metrics import ControllerMetrics
from dradriver.classic.reports import ControllerReports
from dradriver.conditions.releases.release_check import ReleaseCheck
from dradriver.driver import BindingDriver, ControllerDriver, RecordedClaim
from dradriver.kube import Client, EventRecorder
from dradriver.node.driver_calls import Calls, SourceCalls
from dradriver.node.driver_context import ContextRequests, ProcessContext
from dradriver.node.reporting.events import BURST
from dradriver.publish import OwnerRef
from dradriver.runner.binding import BindingProcess

__all__ = ["BindingControllerProcess", "ControllerProcess"]

_log = logging.getLogger("dradriver.runner")

T = TypeVar("T")


class _FinishedCalls(Calls):
    """Calls whose methods are not interrupted when their callers are canceled.

    A plain method cannot be interrupted. If the process released its Lease while `allocate` still ran, the next
    leader would call `deallocate` before `allocate` has ended. The result of such a call is dropped: the next
    leader deallocates the claim.
    """

    def __init__(self, driver: ControllerDriver, guard: Callable[[], None]) -> None:
        super().__init__(driver, guard)
        self._running: set[asyncio.Task[Any]] = set()

    async def call(self, method: Callable[..., T | Awaitable[T]], *arguments: object, about: str = "") -> T:
        """Call a method and return its result; see `Calls.call`."""
        work = asyncio.create_task(super().call(method, *arguments, about=about), name=f"driver{about}")
        self._running.add(work)
        work.add_done_callback(self._forget)
        return await asyncio.shield(work)

    async def finish(self, seconds: float) -> None:
        """Wait for the calls in flight; after `seconds`, cancel those that can be canceled."""
        await end(set(self._running), seconds)

    def _forget(self, work: "asyncio.Task[Any]") -> None:
        self._running.discard(work)
        if not work.cancelled():
            work.exception()  # the caller may be gone


class ControllerProcess:
    """Runs one controller driver; call `await run(stop)` once.

    Args:
        driver: the author's driver.
        client: the API server.
        lease: `namespace/name` of the Lease of the process; empty if there is none.
        guard: called before each method of the driver. It raises a DraError if no method must be called any
            more.

    Attributes:
        metrics: the metrics.
    """

    def __init__(
        self,
        driver: ControllerDriver,
        client: Client,
        lease: str = "",
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        self.metrics = ControllerMetrics(driver.name)
        self._driver = driver
        self._recorder = EventRecorder(client, driver.name, burst=BURST)
        self._calls = _FinishedCalls(driver, guard)
        self._controller = ClassicController(
            driver,
            client,
            lease=lease,
            calls=self._calls,
            reports=ControllerReports(self._recorder, self.metrics),
        )

    @property
    def readiness(self) -> str:
        """Return why the process does not work yet; empty if it works."""
        return self._controller.readiness

    async def liveness(self) -> str:
        """Return "", because an answer already proves that the event loop is not blocked."""
        return ""

    async def run(self, stop: asyncio.Event, grace: float = 30.0) -> None:
        """Work until `stop` is set; then calls in flight may take `grace` seconds, and so may `shutdown()`.

        Raises:
            Exception: a background task failed because of a defect. The caller should end the process, so that
                the process is restarted.
        """
        context, background = ProcessContext(ContextRequests()), Background()
        self._driver.set_context(context)
        async with self._recorder:
            background.start("allocate", self._controller.run())
            try:
                await background.run_until(stop)
            finally:
                await background.stop()
                await self._calls.finish(grace)
                context.close()
                await self._shut_down(grace)
                self._calls.close()

    async def _shut_down(self, grace: float) -> None:
        shutdown = asyncio.create_task(self._calls.call(self._driver.shutdown), name="shutdown()")
        await end({shutdown}, grace)
        if shutdown.done() and not shutdown.cancelled() and (error := shutdown.exception()):
            _log.error("%s", error)


class BindingControllerProcess(BindingProcess):
    """Runs one driver that is both a `BindingDriver` and a `ControllerDriver`; call `await run(stop)` once.

    Args:
        driver: the author's driver.
        controller: the driver again, as the other of its two types.
        client: the API server.
        owner: the owner of the slices; see `PoolProcess`.
        lease: `namespace/name` of the Lease of the process; empty if there is none.
        guard: called before each method of the driver. It raises a DraError if no method must be called any
            more.
    """

    def __init__(
        self,
        driver: BindingDriver,
        controller: ControllerDriver,
        client: Client,
        owner: OwnerRef | None = None,
        *,
        lease: str = "",
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(driver, client, owner, guard)
        self._controller_driver = controller
        self._lease = lease
        self._releases = ReleaseCheck(client, controller.name)
        self._classic_calls = _FinishedCalls(controller, guard)
        self._classic: ClassicController | None = None
        self._classic_metrics = ControllerMetrics(controller.name, self.metrics.registry)

    @property
    def readiness(self) -> str:
        """Return why the process does not publish or allocate yet; empty if it does both.

        Without the definitions or permissions of classic DRA, the driver only publishes, and that is no reason.
        """
        if self._classic is None or self._classic.state.is_unavailable:
            return super().readiness
        return super().readiness or self._classic.readiness

    def start(self, calls: SourceCalls, background: Background) -> None:
        """Start the background tasks of both ways."""
        super().start(calls, background)

        async def find_use(claim: RecordedClaim) -> str:
            return await self._releases.find_claim_use(claim.uid, claim.node)

        self._classic = ClassicController(
            self._controller_driver,
            self._client,
            lease=self._lease,
            calls=self._classic_calls,
            reports=ControllerReports(self._recorder, self._classic_metrics),
            find_use=find_use if self._controller_driver.node_releases else None,
        )
        background.start("allocate", self._classic.run())

    async def _shut_down(self, calls: SourceCalls, grace: float) -> None:
        await self._classic_calls.finish(grace)
        self._classic_calls.close()
        await super()._shut_down(calls, grace)
