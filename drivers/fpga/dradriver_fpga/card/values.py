"""Properties of FPGA cards as frozen values. IDs are 32 hex digits in lower case, as in sysfs."""

import enum
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dradriver_fpga.card.faults import Fault

__all__ = [
    "BLANK_ID",
    "Bitstream",
    "Bridge",
    "CardKind",
    "CardNode",
    "FpgaCard",
    "Manager",
    "ManagerState",
    "Mechanism",
    "Platform",
    "Region",
    "Slot",
    "make_card_name",
    "normalize_id",
]

BLANK_ID: Final = "f" * 32
"""ID that a port reports if its logic does not answer."""


def normalize_id(text: str) -> str:
    """Return an interface or AFU ID without dashes and in lower case, for comparison.

    Args:
        text: the ID in any form.
    """
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
        """Whether programming ended in this state without success.

        The next programming starts from the beginning.
        """
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
    """The kernel's interface to a card."""

    DFL = "Device Feature List: dfl-fme and dfl-port"
    MANAGER = "the FPGA manager alone, with regions or without"
    XRT = "AMD's and Xilinx' own driver, a management and a user function"
    VFIO = "a function of an OFS card that is bound to vfio-pci"


class Mechanism(enum.Enum):
    """The way to write a bitstream to a card."""

    FIRMWARE = "the name of a firmware file, written to the manager"
    DFL_PORT = "partial reconfiguration of a port, through the management engine's device node"
    INTEL_PORT = "the same, with the ioctl of Intel's out-of-tree driver"
    OVERLAY = "an overlay of the device tree: the kernel also closes the region's bridges"
    VENDOR_TOOL = "a program of the vendor"


@dataclass(frozen=True, slots=True)
class CardNode:
    """A file in /dev for a container.

    Attributes:
        path: path on the host, such as `/dev/dfl-port.0`.
        major, minor: numbers of the character device.
    """

    path: str
    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class Manager:
    """The part that writes bitstreams to a card.

    Attributes:
        name: the kernel's name: `fpga0`. The name can change at a reboot.
        label: name that the manager's driver gives it: `Intel FPGA Manager`.
        state: present state.
        status: errors of the last programming, as the manager words them; "" if none.
    """

    name: str
    label: str
    state: ManagerState
    status: str = ""


@dataclass(frozen=True, slots=True)
class Bridge:
    """The part that disconnects a region while the region is programmed.

    At other times, the bridge is enabled.
    """

    name: str
    label: str
    enabled: bool


@dataclass(frozen=True, slots=True)
class Platform:
    """What a bitstream must fit.

    Attributes:
        interface_ids: interfaces for which bitstreams may be made; empty if the card does not report any.
        name: name of the shell (XRT's VBNV); "" if unknown.
        timestamp: time stamp of the shell's feature ROM; 0 if unknown.
    """

    interface_ids: tuple[str, ...] = ()
    name: str = ""
    timestamp: int = 0


@dataclass(frozen=True, slots=True)
class Slot:
    """A part of a region with one accelerator, which a container can use on its own: a port of DFL.

    Attributes:
        id: ID of the region and a number: `0000:3b:00.0/0/0`. The ID is constant across reboots.
        number: number of the slot in its region, from 0.
        afu_id: AFU ID of the slot's content; `BLANK_ID` if the logic does not answer, "" if the card does not
            report the ID.
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
        id: ID of the card and a number: `0000:3b:00.0/0`. The ID is constant across reboots.
        number: number of the region on its card, from 0.
        interface_id: interface for which bitstreams must be made (`compat_id`); "" if the card does not report
            it.
        afu_id: content as the card reports it (DFL's AFU, XRT's UUID of an xclbin); `BLANK_ID` if the logic
            does not answer, "" if the card does not report it.
        bitstream: sha256 of the file that was written; "" if it is unknown, for example because a process died
            during programming.
        state: state of its manager.
        mechanism: the way to program the region; None if this node cannot program it.
        slots: the region's slots for accelerators; empty on cards without ports.
        nodes: device nodes for a container that uses the whole region.
        other_interface_ids: further interfaces for which bitstreams may be made. XRT shells of several
            partitions have one interface for each partition.
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
    other_interface_ids: tuple[str, ...] = ()

    @property
    def interface_ids(self) -> tuple[str, ...]:
        """All interfaces for which bitstreams may be made."""
        return (self.interface_id, *self.other_interface_ids) if self.interface_id else ()


@dataclass(frozen=True, slots=True)
class FpgaCard:
    """One FPGA.

    Attributes:
        id: PCI address, or path of the platform device below /sys/devices/platform. The ID is constant while
            the card stays in its PCI slot.
        name: the ID as a DNS label: `pci-0000-3b-00-0`.
        kind: the kernel's interface of the card.
        vendor, device: PCI IDs, four hex digits: `8086`; "" on a platform device.
        shell: ID of the logic that stays while regions are programmed (DFL's bitstream ID, XRT's VBNV); "" if
            unknown.
        interface_id: interface of the shell for bitstreams; "" if it is unknown, or if the regions have
            different interfaces.
        bitstream: sha256 of the file that was written to the whole card, as in `Region`.
        pci_address, pcie_root: PCI address and PCIe root of the card; "" on a platform device.
        numa_node: the nearest NUMA node; None if unknown.
        mechanism: the way to program the whole card (its shell); None if this node cannot program it.
        regions, managers, bridges: parts of the card.
        parent: ID of the card whose shell contains this one, if this one is a virtual or a further function; ""
            otherwise. The parent may be missing, for example because a virtual machine uses it.
        management: device nodes of the card's management engine. A process that can write to these device nodes
            can change every region, regardless of the operator's rules about bitstreams.
        function_nodes: device nodes of a card that a container can only use as a whole, such as a function that
            is bound to vfio-pci.
        shell_timestamp: time stamp of the feature ROM of an XRT shell; 0 if unknown.
        serial: serial number of the card; "" if the card does not report it.
        reported_faults: faults that the card itself reports: error registers, temperatures, and its driver's
            state.
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
    function_nodes: tuple[CardNode, ...] = ()
    shell_timestamp: int = 0
    serial: str = ""
    reported_faults: tuple[Fault, ...] = ()
    parent: str = ""

    @property
    def keeps_shell(self) -> bool:
        """Whether a file for the whole card goes to memory that keeps its content without power (flash)."""
        return self.mechanism is Mechanism.VENDOR_TOOL and self.kind is not CardKind.MANAGER

    def platform(self, region: Region) -> Platform:
        """Return what a bitstream for a region must fit.

        Args:
            region: a region of the card.
        """
        return Platform(region.interface_ids, self.shell, self.shell_timestamp)

    def region(self, region: str) -> Region | None:
        """Return the region with this ID, or None.

        Args:
            region: ID of the region.
        """
        return next((each for each in self.regions if each.id == region), None)


@dataclass(frozen=True, slots=True)
class Bitstream:
    """A file to program.

    Attributes:
        path: a file that does not change.
        sha256: digest that its content must have, 64 hex digits.
        interface_id: interface for which the file was made; "": use the ID in the file.
        interface_is_proven: whether the operator or a signature vouches for `interface_id`. Otherwise a target
            with an interface accepts the file only if the file itself names the interface.
    """

    path: Path
    sha256: str
    interface_id: str = ""
    interface_is_proven: bool = True


_PCI_ADDRESS: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_MAX_LENGTH: Final = 40
"""Maximum number of characters in a card's name.

A device name has at most 63 characters, and appends the names of a region, slot and shell to the card's name.
"""


def make_card_name(card: str) -> str:
    """Return the ID as a unique DNS label: `pci-0000-3b-00-0`, `platform-axi-f8007000-devcfg-` and a hash."""
    bus = "pci" if _PCI_ADDRESS.fullmatch(card) else "platform"
    label = f"{bus}-{re.sub('[^a-z0-9]+', '-', card.lower()).strip('-')}"
    if len(label) <= _MAX_LENGTH and bus == "pci":
        return label
    # Characters that a label cannot contain become dashes. Without the hash, two paths could therefore have the
    # same label.
    return f"{label[: _MAX_LENGTH - 7].rstrip('-')}-{hashlib.sha256(card.encode()).hexdigest()[:6]}"
