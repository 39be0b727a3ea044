"""Finds all FPGA cards of a node from the devices in sysfs."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from dradriver_fpga.card.real.sysfs import SysfsDevice, matches, members, number_of, pci_address, read

__all__ = ["Parts", "survey"]

_Kind: TypeAlias = Literal["engines", "ports", "managers", "regions", "bridges"]

_XILINX: Final = frozenset({"0x10ee", "0x1d0f", "0x13fe", "0x3475"})
"""Vendors of cards with XRT's shells: Xilinx, Amazon, Advantech, Inspur."""
_XRT_FILES: Final = ("user_pf", "mgmt_pf", "xclbinuuid")


@dataclass
class Parts:
    """The devices of one card, each kind in the kernel's order.

    Attributes:
        management, user: the PCI functions of an XRT card.
        engines, ports: `dfl-fme` and `dfl-port`.
        regions: all regions, except the DFL regions that only connect a card's parts.
    """

    management: SysfsDevice | None = None
    user: SysfsDevice | None = None
    engines: list[SysfsDevice] = field(default_factory=list)
    ports: list[SysfsDevice] = field(default_factory=list)
    managers: list[SysfsDevice] = field(default_factory=list)
    regions: list[SysfsDevice] = field(default_factory=list)
    bridges: list[SysfsDevice] = field(default_factory=list)

    def of(self, kind: _Kind) -> list[SysfsDevice]:
        """Return the list of a kind of devices."""
        lists: dict[_Kind, list[SysfsDevice]] = {
            "engines": self.engines,
            "ports": self.ports,
            "managers": self.managers,
            "regions": self.regions,
            "bridges": self.bridges,
        }
        return lists[kind]


def survey(sysfs: Path) -> Mapping[str, Parts]:
    """Return the parts of each card by its ID: PCI address, or path of the manager's platform device."""
    cards: defaultdict[str, Parts] = defaultdict(Parts)
    functions = _xrt_functions(sysfs, cards)
    homeless: list[tuple[_Kind, SysfsDevice]] = []
    for kind, device in _devices(sysfs):
        address = pci_address(device.path)
        if address:
            cards[functions.get(address, address)].of(kind).append(device)
        elif kind == "managers":
            cards[_platform_path(sysfs, device.owner)].managers.append(device)
        else:
            homeless.append((kind, device))
    platform = {name: parts for name, parts in cards.items() if parts.managers and not pci_address(Path(name))}
    for kind, device in homeless:
        card = _manager_of(device, platform) or _platform_path(sysfs, device.owner)
        if card in platform or kind != "bridges":
            cards[card].of(kind).append(device)
    return cards


def _devices(sysfs: Path) -> Iterator[tuple[_Kind, SysfsDevice]]:
    for device in members(sysfs, "fpga_manager"):
        yield "managers", device
    for device in members(sysfs, "fpga_bridge"):
        yield "bridges", device
    for device in members(sysfs, "platform", lambda link: link.name.startswith("dfl-")):
        if device.name.startswith("dfl-fme."):
            yield "engines", device
        elif device.name.startswith("dfl-port."):
            yield "ports", device
    regions = members(sysfs, "fpga_region")
    regions.sort(key=lambda each: (number_of(each.owner.name), each.owner, number_of(each.name)))
    for device in regions:
        if not matches(device.path, "dfl-*"):
            yield "regions", device


def _xrt_functions(sysfs: Path, cards: defaultdict[str, Parts]) -> dict[str, str]:
    """Add the functions of XRT cards to `cards`, and return the card of each function."""
    found: defaultdict[str, Parts] = defaultdict(Parts)
    for device in members(sysfs, "pci", lambda link: read(link / "vendor") in _XILINX):
        if any((device.path / name).exists() for name in _XRT_FILES):
            slot = found[device.name.rpartition(".")[0]]
            if (device.path / "mgmt_pf").exists():
                slot.management = device
            else:
                slot.user = device
    owners = {}
    for parts in found.values():
        functions = [each for each in (parts.user, parts.management) if each is not None]
        cards[functions[0].name] = parts
        owners.update({each.name: functions[0].name for each in functions})
    return owners


def _manager_of(device: SysfsDevice, platform: Mapping[str, Parts]) -> str:
    """Return the card of a platform region or bridge.

    It is the card of its `fpga-mgr` in the device tree, or the only card; "" if neither exists.
    """
    wanted = _bytes(device.owner / "of_node" / "fpga-mgr")
    for name, parts in platform.items():
        if wanted and any(_bytes(each.owner / "of_node" / "phandle") == wanted for each in parts.managers):
            return name
    return next(iter(platform)) if len(platform) == 1 else ""


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _platform_path(sysfs: Path, folder: Path) -> str:
    devices = (sysfs / "devices").resolve()
    for above in (devices / "platform", devices):
        if folder.is_relative_to(above):
            return str(folder.relative_to(above))
    return str(folder)
