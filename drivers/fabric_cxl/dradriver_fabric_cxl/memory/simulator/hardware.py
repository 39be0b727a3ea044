"""The simulated memory of a node, and changes of its hardware."""

import time
from pathlib import Path
from typing import Final

from dradriver.testing import StateInMemory
from dradriver_fabric_cxl.memory.executor import KernelMemory
from dradriver_fabric_cxl.memory.simulator.kernel import MemoryCall, MemoryHook, SimulatedKernel
from dradriver_fabric_cxl.memory.simulator.rules import count_online_bytes, find_free_number, pull
from dradriver_fabric_cxl.memory.simulator.state import (
    MemdevState,
    MemoryNodeState,
    MemoryStore,
)
from dradriver_fabric_cxl.memory.values import MemoryHealth

__all__ = ["SimulatedMemory"]

_POLL_SECONDS: Final = 0.02
"""Seconds between two looks at a state that another process may change."""


def _inject_nothing(_call: str, _moment: str) -> None:
    """Default hook: does nothing."""


class SimulatedMemory(KernelMemory):
    """CXL memory of a node without hardware. See `Memory`.

    Several processes can share a store: one of them plugs devices, another one uses them.

    Args:
        store: the state; None: in memory.
        hook: called around each change of the kernel; it can raise, or end the process.
        lock_file: see `KernelMemory`.
    """

    def __init__(
        self,
        store: MemoryStore | None = None,
        *,
        hook: MemoryHook = _inject_nothing,
        lock_file: Path | None = None,
    ) -> None:
        self._store: MemoryStore = store or StateInMemory(MemoryNodeState)
        self._seen_changes = 0
        super().__init__(SimulatedKernel(self._store, hook), lock_file)

    def open(self) -> None:
        """See `Memory`."""
        with self._store.change() as state:
            self._seen_changes = state.changes

    def close(self) -> None:
        """See `Memory`."""

    def wait_change(self, timeout: float) -> bool:
        """See `Memory`."""
        end = time.monotonic() + timeout
        while True:
            with self._store.change() as state:
                seen, self._seen_changes = self._seen_changes, state.changes
            left = end - time.monotonic()
            if seen != self._seen_changes or left <= 0:
                return seen != self._seen_changes
            time.sleep(min(_POLL_SECONDS, left))

    # Changes of the hardware, for tests and demonstrations.

    @property
    def phantom_bytes(self) -> int:
        """Bytes of system RAM whose region was removed below it. A real kernel crashes when it uses them."""
        with self._store.change() as state:
            return state.phantom

    @property
    def ram_bytes(self) -> int:
        """Bytes of system RAM that the kernel uses as RAM, including those of `phantom_bytes`."""
        with self._store.change() as state:
            return state.phantom + sum(map(count_online_bytes, state.regions))

    def plug(self, serial: int, size: int) -> None:
        """Plug in a device, with the data of its last owner; a no-op if the device is plugged in.

        Args:
            serial: serial number.
            size: size in bytes.
        """
        with self._store.change() as state:
            if _find_serial(state, serial) is None:
                number = find_free_number([each.number for each in state.memdevs])
                state.memdevs.append(MemdevState(number, serial, size))
                state.changes += 1

    def unplug(self, serial: int) -> None:
        """Pull a device, whether it is used or not; a no-op if it is not plugged in.

        Args:
            serial: serial number.
        """
        with self._store.change() as state:
            if (found := _find_serial(state, serial)) is not None:
                pull(state, found)

    def reboot(self) -> None:
        """Reboot the node: devices stay plugged in, and regions are gone."""
        with self._store.change() as state:
            state.regions, state.claimed, state.phantom = [], [], 0
            for number, each in enumerate(state.memdevs):
                each.number, each.reserved, each.in_use = number, 0, False
            state.changes += 1

    def set_health(self, serial: int, health: MemoryHealth) -> None:
        """Set the health of a device.

        Args:
            serial: serial number.
            health: the new health.
        """
        with self._store.change() as state:
            if (found := _find_serial(state, serial)) is not None:
                found.health = health
                state.changes += 1

    def set_in_use(self, serial: int, *, in_use: bool) -> None:
        """Make programs use the memory of a device, or stop using it. Memory in use cannot be taken back.

        Args:
            serial: serial number.
            in_use: whether they use it.
        """
        with self._store.change() as state:
            if (found := _find_serial(state, serial)) is not None:
                found.in_use = in_use

    def set_window(self, size: int) -> None:
        """Set the size of the computer's window of addresses.

        Args:
            size: size in bytes; 0: the computer has no CXL.
        """
        with self._store.change() as state:
            state.window = size

    def set_virtual(self, *, virtual: bool) -> None:
        """Make the node a virtual machine, whose kernel refuses regions.

        Args:
            virtual: whether it is one.
        """
        with self._store.change() as state:
            state.virtual = virtual

    def fail(self, call: MemoryCall, times: int = 1) -> None:
        """Make the next changes of a kind fail, of any process.

        Args:
            call: the kind.
            times: number of changes.
        """
        with self._store.change() as state:
            state.faults[call.value] = times

    def is_clear(self, serial: int) -> bool:
        """Return whether the whole memory was cleared since the device was plugged in.

        Args:
            serial: serial number.
        """
        with self._store.change() as state:
            found = _find_serial(state, serial)
            return found is not None and found.cleared == found.bytes


def _find_serial(state: MemoryNodeState, serial: int) -> MemdevState | None:
    return next((each for each in state.memdevs if each.serial == serial), None)
