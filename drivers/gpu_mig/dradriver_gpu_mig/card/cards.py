"""Hardware for asyncio: one thread makes all calls, and another one waits for events."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Final, Self, TypeVar

from dradriver_gpu_mig.card.errors import CardError, NotSupportedError
from dradriver_gpu_mig.card.hardware import Hardware
from dradriver_gpu_mig.card.values import Event

__all__ = ["Cards"]

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)
_WAIT: Final = 0.25
"""Seconds of one wait for an event, and so the longest time that `close` waits for the thread."""
_PAUSE: Final = 5.0
"""Seconds until a failed wait is repeated."""


class Cards:
    """The GPUs of this node.

        async with Cards(hardware) as cards:
            gpus = await cards.call(lambda hardware: hardware.gpus())
            async for event in cards.events(): ...

    Only one thread calls NVML. A call that has begun runs to its end even if its caller is cancelled, because
    hardware cannot stop half way. The next read finds what such a call created.

    Attributes:
        hardware: the hardware; to be used through `call` only.
    """

    def __init__(self, hardware: Hardware) -> None:
        self.hardware = hardware
        self._calls = ThreadPoolExecutor(1, thread_name_prefix="nvml")
        self._stop = threading.Event()
        self._watch: asyncio.Future[None] | None = None

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
        if self._watch is not None:
            await self._watch
        await self.call(lambda hardware: hardware.close())
        self._calls.shutdown()

    async def call(self, action: Callable[[Hardware], T]) -> T:
        """Run `action` on the hardware's thread and return its result. No other call runs in between.

        Raises:
            CardError: the hardware rejected a call.
        """
        return await asyncio.get_running_loop().run_in_executor(self._calls, action, self.hardware)

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield all events of the GPUs from now on. There may be one listener at a time.

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

        self._watch = loop.create_future()
        watch = self._watch
        thread = threading.Thread(
            target=self._wait, args=(put, stop, loop, watch), name="nvml-events", daemon=True
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
            await watch
            thread.join()

    def _wait(
        self,
        put: Callable[[Event | Exception], None],
        stop: threading.Event,
        loop: asyncio.AbstractEventLoop,
        done: asyncio.Future[None],
    ) -> None:
        try:
            while not (stop.is_set() or self._stop.is_set()):
                try:
                    event = self.hardware.wait_event(_WAIT)
                except NotSupportedError as error:
                    put(error)
                    return
                except CardError as error:
                    _log.warning(
                        "waiting for events of the GPUs failed, tried again in %.0f s: %s", _PAUSE, error
                    )
                    stop.wait(_PAUSE)
                    continue
                except Exception as error:  # a bug: the listener has to see it
                    put(error)
                    return
                if event is not None:
                    put(event)
        finally:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_finish, done)


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
