"""Controls of the shim's hardware, from this process or another one."""

import ctypes
from collections.abc import Sequence
from pathlib import Path

from dradriver_gpu_mig.card import EventKind, Fabric, Process, RecoveryAction, Virtualization

__all__ = ["CLUSTER", "SIGKILL", "ShimControls", "environment"]

SIGKILL = -9
"""The code of a fault that kills the process in the middle of a call."""
_ALL = 0xFFFFFFFF
CLUSTER = "c1c1c1c1-c1c1-c1c1-c1c1-c1c1c1c1c1c1"
"""The only cluster of the shim."""
_TYPES = {
    EventKind.SINGLE_BIT_ECC: 0x1,
    EventKind.DOUBLE_BIT_ECC: 0x2,
    EventKind.XID: 0x8,
    EventKind.MIG_CHANGED: 0x100,
    EventKind.RECOVERY_ACTION: 0x8000,
}


def environment(state: Path, cards: Sequence[str], *, mig: bool = True, node: str = "node") -> dict[str, str]:
    """What a process must have in its environment to see these cards.

    Args:
        state: the file that all processes share; the other arguments count until it is there.
        cards: names of the simulator's catalog.
        mig: whether MIG is on.
        node: makes the UUIDs of one node other than those of another.
    """
    return {
        "NVML_SHIM_STATE": str(state),
        "NVML_SHIM_CARDS": ",".join(cards),
        "NVML_SHIM_MIG": str(int(mig)),
        "NVML_SHIM_NODE": node,
    }


class ShimControls:
    """The cards that this process' environment names. GPUs are named by index."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))

    def report_error(
        self, gpu: int, kind: EventKind, *, xid: int = 0, gpu_instance: int = _ALL, compute_instance: int = _ALL
    ) -> None:
        """The GPU, or an instance of it, reports an error."""
        data = ctypes.c_uint64(xid)
        self._call("shimEvent", gpu, ctypes.c_uint64(_TYPES[kind]), data, gpu_instance, compute_instance)

    def lose(self, gpu: int) -> None:
        """The GPU falls off the bus."""
        self._call("shimLose", gpu)

    def remove(self, gpu: int) -> None:
        """Removes the GPU: it is not listed, and its UUID is not found."""
        self._call("shimRemove", gpu)

    def fail_calls(self, gpu: int, code: int, *, call: str = "", skip: int = 0, times: int = -1) -> None:
        """Calls about the GPU answer with an error.

        Args:
            gpu: which.
            code: what they answer; 0: they answer as before.
            call: the name in C of the only one that does; "": all.
            skip: how many calls are answered first.
            times: how often; -1: until another call of this method.
        """
        self._call("shimRefuse", gpu, call.encode(), code, skip, times)

    def fail_placements(self, gpu: int, profile: int, code: int) -> None:
        """The placements of a profile, by its ID, cannot be read; code 0: they can."""
        self._call("shimRefusePlacements", gpu, profile, code)

    def reset(self, gpu: int) -> None:
        """The GPU is back, without instances, in its pending MIG mode."""
        self._call("shimReset", gpu)

    def set_recovery_action(self, gpu: int, action: RecoveryAction | None) -> None:
        """The GPU reports another recovery action. None: its driver does not report recovery actions."""
        self._call("shimRecovery", gpu, _ALL if action is None else action.value)

    def set_virtualization(self, gpu: int, mode: Virtualization) -> None:
        """The GPU is a vGPU, or one that serves vGPUs."""
        self._call("shimVirtualization", gpu, mode.value)

    def set_memory_and_fabric(self, gpu: int, addressing_mode: str, fabric: Fabric | None) -> None:
        """How the GPU addresses the host's memory, and its NVLink fabric. A cluster's UUID is `CLUSTER`."""
        state = 0 if fabric is None else 2 if fabric.cluster_uuid else 1
        mode = ("", "None", "HMM", "ATS").index(addressing_mode)
        self._call("shimMemoryAndFabric", gpu, mode, state, fabric.clique_id if fabric else 0)

    def set_processes(self, gpu: int, processes: Sequence[Process]) -> None:
        """These processes, and no others, use the GPU."""
        for slot in range(16):
            each = processes[slot] if slot < len(processes) else Process(0, 0, None, None)
            ids = (_ALL if number is None else number for number in (each.gpu_instance, each.compute_instance))
            self._call("shimUse", gpu, slot, each.pid, ctypes.c_uint64(each.memory or 0), *ids)

    def fault(self, call: str, code: int, *, skip: int = 0, after: bool = False) -> None:
        """A call of NVML answers with an error, once, after so many that don't.

        Args:
            call: its name in C.
            code: what it answers; `SIGKILL` kills the process that calls.
            skip: how many calls pass first.
            after: whether the call takes effect all the same.
        """
        self._call("shimFault", call.encode(), skip, code, int(after))

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        assert status == 0, f"{name}: {status}"
