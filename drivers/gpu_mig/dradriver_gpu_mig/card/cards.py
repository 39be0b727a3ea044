"""`GpuHardware` for asyncio: one thread makes all calls, and another one waits for events."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Final, Self, TypeVar

from dradriver_gpu_mig.card.errors import GpuError, NotSupportedError
from dradriver_gpu_mig.card.hardware import GpuHardware
from dradriver_gpu_mig.card.values import Event

__all__ = ["GpuCards"]

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)
_WAIT_SECONDS: Final = 0.25
"""Seconds of one wait for an event. `close` waits for the thread at most this long."""
_RETRY_SECONDS: Final = 5.0
"""Seconds until the next attempt after a failed wait."""


class GpuCards:
    """The GPUs of this node.

        async with GpuCards(hardware) as cards:
            gpus = await cards.call(lambda hardware: hardware.gpus())
            async for event in cards.events(): ...

    Only one thread calls NVML. If a call has begun, it runs to its end even if its caller is cancelled, because
    the hardware cannot stop in the middle. The next read of the cards finds the instances that the call
    created.

    Attributes:
        hardware: the hardware. Use it only through `call`.
    """

    def __init__(self, hardware: GpuHardware) -> None:
        self.hardware = hardware
        self._calls = ThreadPoolExecutor(1, thread_name_prefix="nvml")
        self._stop = threading.Event()
        self._listener_done: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            await self.call(lambda hardware: hardware.open())
        except BaseException:
            self._calls.shutdown(wait=False)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._listener_done is not None:
            await self._listener_done
        await self.call(lambda hardware: hardware.close())
        self._calls.shutdown()

    async def call(self, action: Callable[[GpuHardware], T]) -> T:
        """Return the result of `action`, which runs on the hardware's thread.

        No other call runs while `action` runs.

        Args:
            action: blocking function of the hardware.

        Raises:
            GpuError: the hardware rejected a call.
        """
        return await asyncio.get_running_loop().run_in_executor(self._calls, action, self.hardware)

    async def call_closed(self, action: Callable[[], T]) -> T:
        """Return the result of `action`, which runs while the hardware is closed.

        The kernel unbinds NVIDIA's driver from a GPU only when no process has it open. No other call runs while
        `action` runs, so nothing opens the hardware meanwhile.

        Args:
            action: blocking function that does not use the hardware.

        Raises:
            GpuError: the hardware cannot be closed or opened again.
        """

        def run(hardware: GpuHardware) -> T:
            hardware.close()
            try:
                return action()
            finally:
                hardware.open()

        return await self.call(run)

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
            await done
            thread.join()

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
