"""Accelerators of a node without hardware."""

from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from dradriver.testing import SimulatedState, StateInFile, StateInMemory
from dradriver_fabric_cxl.accelerator.hardware import Accelerators, AttachedAccelerator, CharacterDevice

__all__ = ["AcceleratorFileStore", "AcceleratorStore", "SimulatedAccelerators"]

_DRM_MAJOR: Final = 226
_FIRST_RENDER_NODE: Final = 128


class PluggedAccelerator(msgspec.Struct):
    """An accelerator that is plugged in.

    Attributes:
        slot: number of its slot, from 0.
        has_driver: whether the kernel has a driver for it, so that it has device nodes.
    """

    slot: int
    has_driver: bool = True


class AcceleratorState(msgspec.Struct):
    """All accelerators of a node, by serial number."""

    plugged: dict[int, PluggedAccelerator] = {}


AcceleratorStore: TypeAlias = SimulatedState[AcceleratorState]
"""Holds the state of a node's accelerators."""


class AcceleratorFileStore(StateInFile[AcceleratorState]):
    """State that outlives the process and that several processes share."""

    def __init__(self, path: Path) -> None:
        super().__init__(AcceleratorState, path)


class SimulatedAccelerators(Accelerators):
    """Accelerators of a node without hardware. See `Accelerators`.

    Several processes can share a store: one of them plugs accelerators, another one uses them.

    Args:
        store: the state; None: in memory.
    """

    def __init__(self, store: AcceleratorStore | None = None) -> None:
        self._store: AcceleratorStore = store or StateInMemory(AcceleratorState)

    def devices(self) -> tuple[AttachedAccelerator, ...]:
        """See `Accelerators`."""
        with self._store.change() as state:
            return tuple(_show(serial, each) for serial, each in sorted(state.plugged.items()))

    # Changes of the hardware, for tests and demonstrations.

    def plug(self, serial: int) -> None:
        """Plug in an accelerator, with its driver; a no-op if it is plugged in.

        Args:
            serial: serial number.
        """
        with self._store.change() as state:
            used = {each.slot for each in state.plugged.values()}
            slot = next(number for number in range(len(used) + 1) if number not in used)
            state.plugged.setdefault(serial, PluggedAccelerator(slot))

    def unplug(self, serial: int) -> None:
        """Pull an accelerator, whether it is used or not; a no-op if it is not plugged in.

        Args:
            serial: serial number.
        """
        with self._store.change() as state:
            state.plugged.pop(serial, None)

    def set_driver(self, serial: int, *, has_driver: bool) -> None:
        """Load or unload the driver of an accelerator.

        Args:
            serial: serial number of an accelerator that is plugged in.
            has_driver: whether the kernel has a driver for it.
        """
        with self._store.change() as state:
            state.plugged[serial].has_driver = has_driver


def _show(serial: int, plugged: PluggedAccelerator) -> AttachedAccelerator:
    minor = _FIRST_RENDER_NODE + plugged.slot
    node = CharacterDevice(f"/dev/dri/renderD{minor}", _DRM_MAJOR, minor)
    return AttachedAccelerator(
        serial, f"0000:{0xC1 + plugged.slot:02x}:00.0", (node,) if plugged.has_driver else ()
    )
