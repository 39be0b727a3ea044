"""Properties of FPGA cards as frozen values. IDs are 32 hex digits in lower case, as in sysfs."""

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = [
    "BLANK_ID",
    "Bitstream",
    "Bridge",
    "Card",
    "CardKind",
    "CardNode",
    "Manager",
    "ManagerState",
    "Mechanism",
    "Region",
    "Slot",
    "normal_id",
]

BLANK_ID: Final = "f" * 32
"""ID that a port reports if its logic does not answer."""


def normal_id(text: str) -> str:
    """Return an interface or AFU ID without dashes and in lower case, for comparison."""
    return text.strip().replace("-", "").lower()


class ManagerState(enum.Enum):
    """State of an FPGA manager. The values are those of the kernel (`fpga_manager/*/state`)."""

    UNKNOWN = "unknown"
    POWER_OFF = "power off"
    POWER_UP = "power up"
    RESET = "reset"
    FIRMWARE_REQUEST = "firmware request"
    FIRMWARE_REQUEST_ERROR = "firmware request error"
    PARSE_HEADER = "parse header"
    PARSE_HEADER_ERROR = "parse header error"
    WRITE_INIT = "write init"
    WRITE_INIT_ERROR = "write init error"
    WRITE = "write"
    WRITE_ERROR = "write error"
    WRITE_COMPLETE = "write complete"
    WRITE_COMPLETE_ERROR = "write complete error"
    OPERATING = "operating"

    @property
    def is_error(self) -> bool:
        """Whether programming ended here without success. The next programming starts from the beginning."""
        return self.value.endswith(" error")

    @property
    def is_busy(self) -> bool:
        """Whether programming is running."""
        return self in _BUSY


_BUSY: Final = frozenset(
    {
        ManagerState.FIRMWARE_REQUEST,
        ManagerState.PARSE_HEADER,
        ManagerState.WRITE_INIT,
        ManagerState.WRITE,
        ManagerState.WRITE_COMPLETE,
    }
)


class CardKind(enum.Enum):
    """The kernel's interface of a card."""

    DFL = "Device Feature List: dfl-fme and dfl-port"
    MANAGER = "the FPGA manager alone, with regions or without"
    XRT = "AMD's and Xilinx' own driver, a management and a user function"


class Mechanism(enum.Enum):
    """The way to write a bitstream to a card."""

    FIRMWARE = "the name of a firmware file, written to the manager"
    DFL_PORT = "partial reconfiguration of a port, through the management engine's device node"
    VENDOR_TOOL = "a program of the vendor"


@dataclass(frozen=True, slots=True)
class CardNode:
    """A file in /dev for a container.

    Attributes:
        path: path on the host: `/dev/dfl-port.0`.
        major, minor: numbers of the character device.
    """

    path: str
    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class Manager:
    """The part that writes bitstreams to a card.

    Attributes:
        name: the kernel's name: `fpga0`. It can change at a reboot.
        label: name given by its driver: `Intel FPGA Manager`.
        state: present state.
        status: errors of the last programming, in the manager's words; "" without any.
    """

    name: str
    label: str
    state: ManagerState
    status: str = ""


@dataclass(frozen=True, slots=True)
class Bridge:
    """The part that disconnects a region while it is programmed. It is enabled otherwise."""

    name: str
    label: str
    enabled: bool


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for an accelerator that a container can use on its own: a port of DFL.

    Attributes:
        id: ID of the region and a number: `0000:3b:00.0/0/0`. It is constant across reboots.
        number: number in its region, from 0.
        afu_id: AFU ID of its content; `BLANK_ID` if the logic does not answer, "" if the card does not report
            it.
        nodes: device nodes for a container.
    """

    id: str
    number: int
    afu_id: str
    nodes: tuple[CardNode, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a card that is programmed on its own.

    Attributes:
        id: ID of the card and a number: `0000:3b:00.0/0`. It is constant across reboots.
        number: number on its card, from 0.
        interface_id: interface of the bitstreams that fit (`compat_id`); "" if the card does not report it.
        afu_id: content as the card reports it (DFL's AFU, XRT's UUID of an xclbin); `BLANK_ID` if the logic
            does not answer, "" if the card does not report it.
        bitstream: sha256 of the file that was written; "" if it is unknown, for example after a process died
            while it programmed.
        state: state of its manager.
        mechanism: the way to program it; None if this node cannot.
        slots: the places of its accelerators; empty on cards without ports.
        nodes: device nodes for a container that uses the whole region.
    """

    id: str
    number: int
    interface_id: str
    afu_id: str
    bitstream: str
    state: ManagerState
    mechanism: Mechanism | None
    slots: tuple[Slot, ...] = ()
    nodes: tuple[CardNode, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """One FPGA.

    Attributes:
        id: PCI address, or path of the platform device below /sys/devices/platform. It is constant while the
            card stays in its place.
        name: the ID as a DNS label: `pci-0000-3b-00-0`.
        kind: the kernel's interface of the card.
        vendor, device: PCI IDs, four hex digits: `8086`; "" on a platform device.
        shell: the part that stays while regions are programmed (DFL's bitstream ID, XRT's VBNV); "" if unknown.
        interface_id: interface of the shell for bitstreams; "" if it is unknown, or if regions differ.
        bitstream: sha256 of the file that was written to the whole card, as in `Region`.
        pci_address, pcie_root: "" on a platform device.
        numa_node: the nearest NUMA node; None if unknown.
        mechanism: the way to program the whole card (its shell); None if this node cannot.
        regions, managers, bridges: parts of the card.
        management: device nodes of its management engine. A process that can write to them can change every
            region, regardless of the operator's rules about bitstreams.
    """

    id: str
    name: str
    kind: CardKind
    vendor: str
    device: str
    shell: str
    interface_id: str
    bitstream: str
    pci_address: str
    pcie_root: str
    numa_node: int | None
    mechanism: Mechanism | None
    regions: tuple[Region, ...]
    managers: tuple[Manager, ...] = ()
    bridges: tuple[Bridge, ...] = ()
    management: tuple[CardNode, ...] = ()

    def region(self, region: str) -> Region | None:
        """Return the region with an ID, or None."""
        return next((each for each in self.regions if each.id == region), None)


@dataclass(frozen=True, slots=True)
class Bitstream:
    """A file to program.

    Attributes:
        path: a file that does not change.
        sha256: digest that its content must have, 64 hex digits.
        interface_id: interface that it was made for; "" to use the ID in the file.
    """

    path: Path
    sha256: str
    interface_id: str = ""
