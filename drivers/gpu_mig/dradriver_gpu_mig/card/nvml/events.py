"""Receives the events of all GPUs with one NVML event set, and detects lost GPUs."""

import ctypes
import logging
import time
from collections import deque
from collections.abc import Mapping
from typing import Final

import pynvml

from dradriver_gpu_mig.card.errors import NotSupportedError
from dradriver_gpu_mig.card.nvml.discovery import Handle, convert_instance_ids
from dradriver_gpu_mig.card.values import Event, EventKind

__all__ = ["EventSet"]

_log: Final = logging.getLogger(__name__)

_KINDS: Final[Mapping[int, EventKind]] = {
    pynvml.nvmlEventTypeXidCriticalError: EventKind.XID,
    pynvml.nvmlEventTypeDoubleBitEccError: EventKind.DOUBLE_BIT_ECC,
    pynvml.nvmlEventTypeSingleBitEccError: EventKind.SINGLE_BIT_ECC,
    pynvml.nvmlEventMigConfigChange: EventKind.MIG_CHANGED,
    pynvml.nvmlEventTypeGpuRecoveryAction: EventKind.RECOVERY_ACTION,
}


class EventSet:
    """Receives the events of the GPUs that were added to it. Only one thread may use it.

    Raises:
        NVMLError: the event set cannot be created.
    """

    def __init__(self) -> None:
        self.gpus: dict[str, Handle] = {}
        self._set = pynvml.nvmlEventSetCreate()
        self._lost: set[str] = set()
        self._pending: deque[Event] = deque()
        self._uuids: dict[int, str] = {}
        self._registered = 0

    def add(self, uuid: str, handle: Handle) -> None:
        """Receive the events of a GPU from now on.

        If the GPU does not support events, or NVML returns an error, the other GPUs are unaffected.
        """
        self.gpus[uuid] = handle
        self._uuids[_handle_address(handle)] = uuid
        self._registered += self._register(uuid, handle)

    def close(self) -> None:
        """Free the event set. Pending events are lost."""
        pynvml.nvmlEventSetFree(self._set)

    def replace(self, gpus: Mapping[str, Handle]) -> "EventSet":
        """Return a new event set for other GPUs, with the pending events of this one, and free this one.

        For a moment, both event sets receive events, because a repeated event does less harm than a missed
        event.
        """
        new = EventSet()
        for uuid, handle in gpus.items():
            new.add(uuid, handle)
        while self._registered and (event := self.wait(0)) is not None:
            new._pending.append(event)
        self.close()
        return new

    def wait(self, timeout: float) -> Event | None:
        """Return the next event, or None after `timeout` seconds.

        Raises:
            NotSupportedError: no GPU supports events.
        """
        if self._pending:
            return self._pending.popleft()
        if not self.gpus:
            time.sleep(timeout)
            return None
        if not self._registered:
            raise NotSupportedError("no GPU of this node supports events", "nvmlDeviceRegisterEvents", 3)
        try:
            data = pynvml.nvmlEventSetWait(self._set, int(timeout * 1000))
        except pynvml.NVMLError_Timeout:
            return None
        except pynvml.NVMLError_GpuIsLost:
            return self._find_lost_gpu(timeout)
        gpu_instance, compute_instance = convert_instance_ids(data.gpuInstanceId, data.computeInstanceId)
        kind, gpu = _KINDS.get(data.eventType), self._uuids.get(_handle_address(data.device))
        if kind is None or gpu is None:
            return None
        return Event(
            kind, gpu, data.eventData if kind is EventKind.XID else None, gpu_instance, compute_instance
        )

    def _register(self, uuid: str, handle: Handle) -> bool:
        """Register a GPU and return whether it supports events.

        If the registration fails, the other GPUs are unaffected.
        """
        try:
            types = pynvml.nvmlDeviceGetSupportedEventTypes(handle) & sum(_KINDS)
            if types:
                pynvml.nvmlDeviceRegisterEvents(handle, types, self._set)
        except pynvml.NVMLError_NotSupported:
            return False
        except pynvml.NVMLError as error:
            _log.warning("%s: its events cannot be registered: NVML returned %s", uuid, error)
            return False
        return bool(types)

    def _find_lost_gpu(self, timeout: float) -> Event | None:
        """Return an event for a lost GPU. NVML reports that a GPU is lost, but not which GPU."""
        new = {uuid for uuid, handle in self.gpus.items() if _is_lost(handle)} - self._lost
        self._lost |= new
        self._pending += (Event(EventKind.GPU_LOST, uuid) for uuid in sorted(new))
        if self._pending:
            return self._pending.popleft()
        # While the lost GPU is in the event set, NVML repeats the error immediately.
        time.sleep(timeout)
        return None


def _handle_address(handle: Handle) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _is_lost(handle: Handle) -> bool:
    try:
        pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError_GpuIsLost:
        return True
    except pynvml.NVMLError:
        return False
    return False
