"""`Memory` for asyncio: calls run on threads, one at a time for each device."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar
from weakref import WeakValueDictionary

from dradriver_fabric_cxl.memory.errors import CxlMemoryError
from dradriver_fabric_cxl.memory.hardware import Memory
from dradriver_fabric_cxl.memory.values import MemoryDevice, MemoryMode, UsableMemory

__all__ = ["NodeMemory"]

_T = TypeVar("_T")
_log: Final = logging.getLogger(__name__)
_WAIT_SECONDS: Final = 0.25
"""Seconds of one wait for a change. Closing waits for its thread at most this long."""
_RETRY_SECONDS: Final = 1.0
"""Seconds until changes are waited for again after a failure."""


class NodeMemory:
    """The CXL memory of this node.

        async with NodeMemory(memory) as node:
            device = await asyncio.wait_for(node.wait_for(0x1234), 60)
            usable = await node.make(device.serial, MemoryMode.DEVDAX)

    A call that changes the kernel runs to its end even if its caller is canceled. The next call for the same
    device waits for that end. Only `clear` stops early.

    Args:
        memory: the memory; only threads of this object use it.
        rescan: seconds between two looks while no change is reported.
    """

    def __init__(self, memory: Memory, *, rescan: float = 10.0) -> None:
        self._memory = memory
        self._rescan = rescan
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._calls: set[asyncio.Task[object]] = set()
        self._listeners: set[asyncio.Event] = set()
        self._thread = ThreadPoolExecutor(1, "cxl-changes")  # a wait must not use up the loop's own threads
        self._following: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._memory.open)
        self._following = asyncio.create_task(self._follow(), name="cxl-changes")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        self._notify()
        await asyncio.gather(*self._calls, return_exceptions=True)
        await asyncio.to_thread(self._thread.shutdown)
        await asyncio.to_thread(self._memory.close)

    async def find_problem(self) -> str:
        """Return why the node can use no CXL memory, for people; "" if it can."""
        return await asyncio.to_thread(self._memory.find_problem)

    async def devices(self) -> tuple[MemoryDevice, ...]:
        """Return the devices that are plugged in, by serial number."""
        return await asyncio.to_thread(self._memory.devices)

    async def wait_for(self, serial: int) -> MemoryDevice:
        """Return a device as soon as it is plugged in. The caller limits the time.

        Args:
            serial: serial number.

        Raises:
            CxlMemoryError: this object was closed.
        """
        async with contextlib.aclosing(self.changes()) as changes:
            async for _ in changes:
                try:
                    found = await self.devices()
                except CxlMemoryError as error:
                    _log.warning("CXL memory cannot be read: %s", error)
                    continue
                for device in found:
                    if device.serial == serial:
                        return device
        raise CxlMemoryError(f"waiting for memory {serial:#x} was stopped")

    async def make(self, serial: int, mode: MemoryMode) -> UsableMemory:
        """Make the whole memory of a device usable; see `Memory.make`.

        Args:
            serial: serial number.
            mode: how the memory is used.

        Returns:
            The usable memory.
        """
        return await self._call(serial, partial(self._memory.make, serial, mode))

    async def clear(self, serial: int, report: Callable[[int], None]) -> None:
        """Overwrite memory in the mode `devdax` with zeros; see `Memory.clear`.

        If the caller is canceled, clearing stops soon, and the memory is partly cleared.

        Args:
            serial: serial number.
            report: called on the event loop with the number of bytes cleared so far.
        """
        loop = asyncio.get_running_loop()
        stop = threading.Event()

        def proceed(cleared: int) -> bool:
            with contextlib.suppress(RuntimeError):  # the loop may be closed
                loop.call_soon_threadsafe(report, cleared)
            return not stop.is_set()

        try:
            await self._call(serial, partial(self._memory.clear, serial, proceed))
        finally:
            stop.set()

    async def take_back(self, serial: int) -> None:
        """Undo `make`; see `Memory.take_back`.

        Args:
            serial: serial number.
        """
        await self._call(serial, partial(self._memory.take_back, serial))

    async def remove_abandoned(self) -> tuple[str, ...]:
        """Remove regions whose device is no longer plugged in; see `Memory.remove_abandoned`.

        Returns:
            The names of the removed regions.
        """
        return await asyncio.to_thread(self._memory.remove_abandoned)

    async def changes(self) -> AsyncGenerator[None, None]:
        """Yield whenever devices may have been plugged or pulled; first at once.

        The reader reads the devices anew. The iterator also yields without a change, once in `rescan` seconds.
        It ends when this object is closed.
        """
        changed = asyncio.Event()
        changed.set()
        self._listeners.add(changed)
        try:
            while not self._closed:
                await changed.wait()
                changed.clear()
                if not self._closed:
                    yield
        finally:
            self._listeners.discard(changed)

    async def _call(self, serial: int, action: Callable[[], _T]) -> _T:
        lock = self._locks.setdefault(serial, asyncio.Lock())
        await lock.acquire()
        task = asyncio.create_task(asyncio.to_thread(action))
        self._calls.add(task)

        def end(ended: asyncio.Task[_T]) -> None:
            lock.release()
            self._calls.discard(ended)
            if not ended.cancelled():
                ended.exception()  # retrieves the error, because the caller may have been canceled

        task.add_done_callback(end)
        return await asyncio.shield(task)

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        due = time.monotonic() + self._rescan
        while True:
            try:
                changed = await loop.run_in_executor(self._thread, self._memory.wait_change, _WAIT_SECONDS)
            except CxlMemoryError as error:
                _log.warning("changes of CXL memory are not reported: %s", error)
                changed = False
                await asyncio.sleep(_RETRY_SECONDS)
            if changed or time.monotonic() >= due:
                due = time.monotonic() + self._rescan
                self._notify()

    def _notify(self) -> None:
        for listener in self._listeners:
            listener.set()
