"""One process at a time works on a device, also during a rolling update."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.instances.record_store import RecordStore

__all__ = ["BusyError", "lock_device"]

_LOCK_SECONDS: Final = 10.0
"""Seconds for which a prepare waits for a recovery, or for the previous process of a rolling update."""

_POLL_SECONDS: Final = 0.1


class BusyError(dra.DraError):
    """Another process, or another call of this process, is working on the device."""


@asynccontextmanager
async def lock_device(records: RecordStore, device: str, seconds: float = _LOCK_SECONDS) -> AsyncIterator[None]:
    """Keep other processes from working on a device.

    Args:
        records: the records.
        device: name of the device.
        seconds: seconds for which the call waits.

    Returns:
        A context, in which this process has the device.

    Raises:
        BusyError: another process still works on the device.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    while (lock := await asyncio.to_thread(records.lock, device)) is None:
        if clock() >= deadline:
            raise BusyError(f"device {device}: another process of this driver works on it")
        await asyncio.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        lock.close()
