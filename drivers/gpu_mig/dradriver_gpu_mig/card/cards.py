"""`GpuHardware` for asyncio: a thread for each GPU, one for the node, and one that waits for events."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, Self, TypeVar

from dradriver_gpu_mig.card.errors import GpuError, NotSupportedError, TimedOutError
from dradriver_gpu_mig.card.hardware import GpuHardware
from dradriver_gpu_mig.card.lane import Lane
from dradriver_gpu_mig.card.values import Event

__all__ = ["GpuCards"]

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)
_CALL_SECONDS: Final = 30.0
_IDLE_SECONDS: Final = 1.0
"""Seconds without a call after which the hardware is closed."""
_WAIT_SECONDS: Final = 0.25
"""Seconds of one wait for an event. `__aexit__` waits for the thread at most `_EVENT_END_SECONDS`."""
_EVENT_END_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 5.0
"""Seconds until the next attempt after a failed wait."""


class GpuCards:
    """The GPUs of this node.

        async with GpuCards(hardware) as cards:
            gpus = await cards.call(lambda hardware: hardware.list_gpus())
            async for event in cards.events(): ...

    Each GPU has a thread of its own, and each call has a time limit, so a GPU that hangs does not delay the
    others. If a call has begun, it runs to its end even if its caller is cancelled or the limit is exceeded,
    because the hardware cannot stop in the middle. The next read of the cards finds the instances that the call
    created.

    Args:
        hardware: the hardware. Use it only through `call` and `call_gpu`.
        seconds: time limit of one call.
        keeps_open: whether the hardware stays open until the end. Otherwise it is open only during calls: an
            open handle of NVML keeps administrators from resetting a GPU and from unloading the driver.
    """

    def __init__(
        self, hardware: GpuHardware, *, seconds: float = _CALL_SECONDS, keeps_open: bool = True
    ) -> None:
        self.hardware = hardware
        self._seconds = seconds
        self._keeps_open = keeps_open
        self._node_lane = Lane("nvml", seconds)
        self._gpu_lanes: dict[str, Lane] = {}
        self._is_open = False
        self._users = 0
        self._unused = asyncio.Event()
        self._unused.set()
        self._open_lock = asyncio.Lock()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closer: asyncio.Task[None] | None = None
        self._stop = threading.Event()
        self._listener_done: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            async with self.opened():
                return self
        except BaseException:
            await self._node_lane.close()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._listener_done is not None:
            await asyncio.wait({self._listener_done}, timeout=_EVENT_END_SECONDS)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._closer is not None:
            await self._closer
        async with self._open_lock:
            await self._close()
        for lane in (self._node_lane, *self._gpu_lanes.values()):
            await lane.close()

    async def call(self, action: Callable[[GpuHardware], T]) -> T:
        """Return the result of `action`, which concerns the node and not one GPU.

        Args:
            action: blocking function of the hardware.

        Raises:
            GpuError: the hardware rejected a call.
            TimedOutError: the hardware does not answer.
        """
        async with self.opened():
            return await self._node_lane.call(lambda: action(self.hardware))

    async def call_gpu(self, gpu: str, action: Callable[[GpuHardware], T]) -> T:
        """Return the result of `action`, which concerns one GPU. No other call for this GPU runs meanwhile.

        Args:
            gpu: UUID of the GPU.
            action: blocking function of the hardware.

        Raises:
            GpuError: the hardware rejected a call.
            TimedOutError: the GPU does not answer.
        """
        lane = self._gpu_lanes.get(gpu)
        if lane is None:
            lane = self._gpu_lanes[gpu] = Lane(gpu, self._seconds)
        async with self.opened():
            return await lane.call(lambda: action(self.hardware))

    async def call_closed(self, action: Callable[[], T]) -> T:
        """Return the result of `action`, which runs while the hardware is closed.

        The kernel unbinds NVIDIA's driver from a GPU only when no process has it open. No other call runs while
        `action` runs, so nothing opens the hardware meanwhile.

        Args:
            action: blocking function that does not use the hardware.

        Raises:
            GpuError: the hardware cannot be closed or opened again.
            TimedOutError: other calls do not return.
        """
        async with self._open_lock:
            try:
                async with asyncio.timeout(self._seconds):
                    await self._unused.wait()
            except TimeoutError as error:
                raise TimedOutError("the GPUs cannot be closed, because other calls do not return") from error
            await self._close()
            if self._is_open:
                raise TimedOutError("the GPUs cannot be closed, because a call does not return")
            try:
                return await self._node_lane.call(action)
            finally:
                if self._keeps_open:
                    await self._open()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Keep the hardware open inside the block.

        Yields:
            Nothing.

        Raises:
            GpuError: the hardware cannot be opened.
        """
        # Inside another block, the hardware is open, and `call_closed` waits for the end of that block.
        if self._unused.is_set():
            async with self._open_lock:
                if self._idle_timer is not None:
                    self._idle_timer.cancel()
                if not self._is_open:
                    await self._open()
                self._begin_use()
        else:
            self._begin_use()
        try:
            yield
        finally:
            self._end_use()

    def _begin_use(self) -> None:
        self._users += 1
        self._unused.clear()

    def _end_use(self) -> None:
        self._users -= 1
        if self._users:
            return
        self._unused.set()
        if not self._keeps_open:
            self._idle_timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._start_closing)

    async def _open(self) -> None:
        await self._node_lane.call(self.hardware.open)
        self._is_open = True

    def hangs(self, gpu: str) -> bool:
        """Return whether a call of a GPU has not returned.

        Args:
            gpu: UUID of the GPU.
        """
        lane = self._gpu_lanes.get(gpu)
        return lane is not None and lane.hangs

    @property
    def is_open(self) -> bool:
        """Whether the hardware is open now."""
        return self._is_open

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield all events of the GPUs from now on. Only one listener is allowed at a time.

        Raises:
            NotSupportedError: no GPU of the node supports events.
        """
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Event | Exception] = asyncio.Queue()
        stop = threading.Event()

        def put(item: Event | Exception) -> None:
            # The loop may be closed before this thread ends.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(queue.put_nowait, item)

        done = self._listener_done = loop.create_future()
        thread = threading.Thread(
            target=self._forward_events, args=(put, stop, loop, done), name="nvml-events", daemon=True
        )
        thread.start()
        try:
            while True:
                item = await queue.get()
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            stop.set()
            ended, _ = await asyncio.wait({done}, timeout=_EVENT_END_SECONDS)
            if ended:
                thread.join()

    def _start_closing(self) -> None:
        self._closer = asyncio.create_task(self._close_if_idle(), name="close the GPUs")

    async def _close_if_idle(self) -> None:
        async with self._open_lock:
            if not self._users:
                await self._close()

    async def _close(self) -> None:
        """Close the hardware, unless a call hangs: NVML cannot be shut down while it works.

        The end of the next use tries again.
        """
        if not self._is_open or any(lane.hangs for lane in (self._node_lane, *self._gpu_lanes.values())):
            return
        try:
            await self._node_lane.call(self.hardware.close)
        except GpuError as error:
            _log.warning("the GPUs cannot be closed: %s", error)
        self._is_open = False

    def _forward_events(
        self,
        put: Callable[[Event | Exception], None],
        stop: threading.Event,
        loop: asyncio.AbstractEventLoop,
        done: asyncio.Future[None],
    ) -> None:
        try:
            while not (stop.is_set() or self._stop.is_set()):
                try:
                    event = self.hardware.wait_event(_WAIT_SECONDS)
                except NotSupportedError as error:
                    put(error)
                    return
                except GpuError as error:
                    _log.warning(
                        "cannot wait for events of the GPUs, next attempt in %.0f s: %s", _RETRY_SECONDS, error
                    )
                    stop.wait(_RETRY_SECONDS)
                    continue
                except Exception as error:  # a bug: the listener must receive it
                    put(error)
                    return
                if event is not None:
                    put(event)
        finally:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_set_done, done)


def _set_done(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
