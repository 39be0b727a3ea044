"""What an FPGA card says of itself, as frozen values. IDs are 32 hex digits in small letters, as in sysfs."""

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
"""What a port says whose logic does not answer."""


def normal_id(text: str) -> str:
    """An interface or AFU ID as it is compared: without dashes, in small letters."""
    return text.strip().replace("-", "").lower()


class ManagerState(enum.Enum):
    """What an FPGA manager is doing; the values are the kernel's words (`fpga_manager/*/state`)."""

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
        """Programming ended here, without success; the next programming begins anew."""
        return self.value.endswith(" error")

    @property
    def is_busy(self) -> bool:
        """Programming is under way."""
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
    """Which of the kernel's interfaces a card has."""

    DFL = "Device Feature List: dfl-fme and dfl-port"
    MANAGER = "the FPGA manager alone, with regions or without"
    XRT = "AMD's and Xilinx' own driver, a management and a user function"


class Mechanism(enum.Enum):
    """How a bitstream gets into a card."""

    FIRMWARE = "the name of a firmware file, written to the manager"
    DFL_PORT = "partial reconfiguration of a port, through the management engine's device node"
    VENDOR_TOOL = "a program of the vendor"


@dataclass(frozen=True, slots=True)
class CardNode:
    """A file in /dev: what a container gets.

    Attributes:
        path: on the host: `/dev/dfl-port.0`.
        major, minor: the numbers of a character device.
    """

    path: str
    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class Manager:
    """What writes bitstreams into a card.

    Attributes:
        name: the kernel's: `fpga0`; another one after a reboot, maybe.
        label: what its driver calls it: `Intel FPGA Manager`.
        state: what it is doing.
        status: errors of the last programming, as the manager words them; "" without any.
    """

    name: str
    label: str
    state: ManagerState
    status: str = ""


@dataclass(frozen=True, slots=True)
class Bridge:
    """What cuts a region off while it is programmed: `enabled`, or not."""

    name: str
    label: str
    enabled: bool


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for an accelerator that containers use on its own: a port of DFL.

    Attributes:
        id: the region's and a number: `0000:3b:00.0/0/0`; the same after a reboot.
        number: in its region, from 0.
        afu_id: what it holds; `BLANK_ID` when the logic does not answer, "" when it does not tell.
        nodes: what a container gets.
    """

    id: str
    number: int
    afu_id: str
    nodes: tuple[CardNode, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a card that is programmed on its own.

    Attributes:
        id: the card's and a number: `0000:3b:00.0/0`; the same after a reboot.
        number: on its card, from 0.
        interface_id: of the bitstreams that fit (`compat_id`); "" when the card does not tell.
        afu_id: what it holds, as the card tells it (DFL's AFU, XRT's UUID of an xclbin); `BLANK_ID` when the
            logic does not answer, "" when the card does not tell.
        bitstream: the sha256 of the file that it holds; "" when that is not known for certain, and so after a
            process died while it programmed.
        state: of its manager.
        mechanism: how it is programmed; None when this node can't.
        slots: where its accelerators are used; empty on cards that have no ports.
        nodes: what a container gets of the whole region.
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
        id: the PCI address or the platform device's path below /sys/devices/platform; the same as long as the
            card stays where it is.
        name: the ID as a DNS label: `pci-0000-3b-00-0`.
        kind: which interface it has.
        vendor, device: of PCI, four hex digits: `8086`; "" on a platform device.
        shell: the part that stays while regions are programmed (DFL's bitstream ID, XRT's VBNV); "" if unknown.
        interface_id: what the shell offers to bitstreams; "" when unknown, or when regions differ.
        bitstream: the sha256 of what was written to the whole card, as in `Region`.
        pci_address, pcie_root: "" on a platform device.
        numa_node: the memory that is near; None when unknown.
        mechanism: how the whole card (its shell) is programmed; None when this node can't.
        regions, managers, bridges: its parts.
        management: the nodes of its management engine. Whoever may write to them changes every region, whatever
            the operator's rules about bitstreams are.
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
        """Its region of an ID."""
        return next((each for each in self.regions if each.id == region), None)


@dataclass(frozen=True, slots=True)
class Bitstream:
    """A file to be programmed.

    Attributes:
        path: a file that nobody changes.
        sha256: what its content must have, 64 hex digits.
        interface_id: what it was made for; "" to go by what the file itself says.
    """

    path: Path
    sha256: str
    interface_id: str = ""
