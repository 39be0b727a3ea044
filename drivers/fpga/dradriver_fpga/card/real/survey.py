"""Finds all FPGA cards of a node from the devices in sysfs."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from dradriver_fpga.card.real.intel_driver import list_intel_devices
from dradriver_fpga.card.real.sysfs import (
    SysfsDevice,
    find_pci_address,
    list_devices,
    list_matches,
    parse_number,
    read,
)
from dradriver_fpga.card.real.vfio import find_vfio_functions

__all__ = ["CardParts", "find_card_parts"]

_Kind: TypeAlias = Literal["engines", "ports", "managers", "regions", "bridges"]

_XILINX: Final = frozenset({"0x10ee", "0x1d0f", "0x13fe", "0x3475"})
"""Vendors of cards with XRT's shells: Xilinx, Amazon, Advantech, Inspur."""
_XRT_FILES: Final = ("user_pf", "mgmt_pf", "xclbinuuid")


@dataclass
class CardParts:
    """The devices of one card. Each list is in the kernel's order.

    Attributes:
        management, user: the PCI functions of an XRT card.
        function: the function that is bound to vfio-pci.
        engines, ports: the `dfl-fme` and the `dfl-port` devices, or those of Intel's out-of-tree driver.
        regions: all regions, except the DFL regions that only connect a card's parts.
    """

    management: SysfsDevice | None = None
    user: SysfsDevice | None = None
    function: SysfsDevice | None = None
    engines: list[SysfsDevice] = field(default_factory=list)
    ports: list[SysfsDevice] = field(default_factory=list)
    managers: list[SysfsDevice] = field(default_factory=list)
    regions: list[SysfsDevice] = field(default_factory=list)
    bridges: list[SysfsDevice] = field(default_factory=list)

    def list_of(self, kind: _Kind) -> list[SysfsDevice]:
        """Return the list for one kind of devices."""
        lists: dict[_Kind, list[SysfsDevice]] = {
            "engines": self.engines,
            "ports": self.ports,
            "managers": self.managers,
            "regions": self.regions,
            "bridges": self.bridges,
        }
        return lists[kind]


def find_card_parts(sysfs: Path) -> Mapping[str, CardParts]:
    """Return the parts of each card by card ID: a PCI address, or the path of the manager's platform device."""
    cards: defaultdict[str, CardParts] = defaultdict(CardParts)
    functions = _find_xrt_functions(sysfs, cards)
    for function in find_vfio_functions(sysfs):
        cards[function.name].function = function
    unassigned: list[tuple[_Kind, SysfsDevice]] = []
    for kind, device in _iterate_devices(sysfs):
        address = find_pci_address(device.path)
        if address:
            cards[functions.get(address, address)].list_of(kind).append(device)
        elif kind == "managers":
            cards[_platform_path(sysfs, device.owner)].managers.append(device)
        else:
            unassigned.append((kind, device))
    platform = {
        name: parts for name, parts in cards.items() if parts.managers and not find_pci_address(Path(name))
    }
    for kind, device in unassigned:
        card = _find_card_of(device, platform) or _platform_path(sysfs, device.owner)
        if card in platform or kind != "bridges":
            cards[card].list_of(kind).append(device)
    return cards


def _iterate_devices(sysfs: Path) -> Iterator[tuple[_Kind, SysfsDevice]]:
    for device in list_devices(sysfs, "fpga_manager"):
        yield "managers", device
    for device in list_devices(sysfs, "fpga_bridge"):
        yield "bridges", device
    for device in list_devices(sysfs, "platform", lambda link: link.name.startswith("dfl-")):
        if device.name.startswith("dfl-fme."):
            yield "engines", device
        elif device.name.startswith("dfl-port."):
            yield "ports", device
    engines, ports = list_intel_devices(sysfs)
    yield from (("engines", engine) for engine in engines)
    yield from (("ports", port) for port in ports)
    regions = list_devices(sysfs, "fpga_region")
    regions.sort(key=lambda each: (parse_number(each.owner.name), each.owner, parse_number(each.name)))
    for device in regions:
        if not list_matches(device.path, "dfl-*"):
            yield "regions", device


def _find_xrt_functions(sysfs: Path, cards: defaultdict[str, CardParts]) -> dict[str, str]:
    """Add the functions of XRT cards to `cards`, and return the card of each function."""
    found: defaultdict[str, CardParts] = defaultdict(CardParts)
    for device in list_devices(sysfs, "pci", lambda link: read(link / "vendor") in _XILINX):
        if any((device.path / name).exists() for name in _XRT_FILES):
            slot = found[device.name.rpartition(".")[0]]
            if (device.path / "mgmt_pf").exists():
                slot.management = device
            else:
                slot.user = device
    card_by_function = {}
    for parts in found.values():
        functions = [each for each in (parts.user, parts.management) if each is not None]
        cards[functions[0].name] = parts
        card_by_function.update({each.name: functions[0].name for each in functions})
    return card_by_function


def _find_card_of(device: SysfsDevice, platform: Mapping[str, CardParts]) -> str:
    """Return the card of a platform region or bridge.

    The property `fpga-mgr` in the device tree refers to the card's manager. Without this property, the result
    is the only platform card; "" if there is no platform card, or more than one.
    """
    phandle = _read_bytes(device.owner / "of_node" / "fpga-mgr")
    for name, parts in platform.items():
        if phandle and any(
            _read_bytes(each.owner / "of_node" / "phandle") == phandle for each in parts.managers
        ):
            return name
    return next(iter(platform)) if len(platform) == 1 else ""


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _platform_path(sysfs: Path, folder: Path) -> str:
    devices = (sysfs / "devices").resolve()
    for parent in (devices / "platform", devices):
        if folder.is_relative_to(parent):
            return str(folder.relative_to(parent))
    return str(folder)
