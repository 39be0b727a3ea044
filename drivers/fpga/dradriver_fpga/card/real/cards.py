"""Builds an `FpgaCard` from the devices in sysfs."""

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import dradriver as dra
from dradriver_fpga.card.real.intel_driver import INTEL_ENGINE
from dradriver_fpga.card.real.overlays import find_tree_path, has_bridges
from dradriver_fpga.card.real.sensors import read_faults
from dradriver_fpga.card.real.survey import CardParts
from dradriver_fpga.card.real.sysfs import (
    SysfsDevice,
    find_pci_address,
    list_devices,
    list_matches,
    parse_number,
    read,
)
from dradriver_fpga.card.real.vfio import read_function_nodes
from dradriver_fpga.card.values import (
    Bridge,
    CardKind,
    CardNode,
    FpgaCard,
    Manager,
    ManagerState,
    Mechanism,
    Region,
    Slot,
    make_card_name,
    normalize_id,
)

__all__ = ["CardReader", "ContentLookup", "read_manager"]

ContentLookup: TypeAlias = Callable[[str, Path, str], str]
"""Returns the sha256 of a target's content, from its ID, its folder and the AFU ID that it reports."""

_MANAGER_STATES: Final = {state.value: state for state in ManagerState}


@dataclass(frozen=True, slots=True)
class CardReader:
    """Reads cards.

    Attributes:
        sysfs: mount point of sysfs.
        find_content: returns the known content of a target.
        region_tool: whether the vendor's program for regions is installed.
        shell_tools: the kinds of cards whose program for shells is installed.
        overlays: whether the kernel takes device tree overlays.
    """

    sysfs: Path
    find_content: ContentLookup
    region_tool: bool
    shell_tools: Set[CardKind]
    overlays: bool = False

    def card(self, name: str, parts: CardParts) -> FpgaCard:
        """Return the card with this ID."""
        kind = _find_kind(parts)
        managers = tuple(map(read_manager, parts.managers))
        regions = tuple(self._read_regions(name, kind, parts, managers))
        interfaces = {region.interface_id for region in regions}
        address = find_pci_address(Path(name))
        pci = SysfsDevice(self.sysfs / "bus" / "pci" / "devices" / address)
        root, numa = self._read_pci_location(address)
        return FpgaCard(
            id=name,
            name=make_card_name(name),
            kind=kind,
            vendor=pci.attribute("vendor").removeprefix("0x") if address else "",
            device=pci.attribute("device").removeprefix("0x") if address else "",
            shell=_read_shell(parts),
            interface_id=interfaces.pop() if len(interfaces) == 1 else "",
            bitstream=self.find_content(name, self.folder(name, parts), ""),
            pci_address=address,
            pcie_root=root,
            numa_node=numa,
            mechanism=self._find_card_mechanism(kind, parts),
            regions=regions,
            managers=managers,
            bridges=tuple(map(_read_bridge, parts.bridges)),
            management=tuple(node for engine in parts.engines for node in engine.node()),
            function_nodes=read_function_nodes(self.sysfs, parts.function),
            shell_timestamp=_read_shell_timestamp(parts),
            parent=_find_parent(pci) if address else "",
            serial=_read_serial(pci if address else None, parts),
            reported_faults=tuple(
                read_faults(self.sysfs, self.folder(name, parts), parts, _map_ports(name, kind, parts))
            ),
        )

    def folder(self, name: str, parts: CardParts, region: int | None = None) -> Path:
        """Return a folder that exists as long as the card or, if given, the region exists."""
        if (
            region is not None
            and (device := list(_assign_ports(_find_kind(parts), parts))[region][0]) is not None
        ):
            return device.path
        address = find_pci_address(Path(name))
        if address:
            return (self.sysfs / "bus" / "pci" / "devices" / address).resolve()
        devices = [*parts.managers, *parts.regions]
        return devices[0].path if devices else self.sysfs / "devices" / name

    def _read_regions(
        self, card: str, kind: CardKind, parts: CardParts, managers: tuple[Manager, ...]
    ) -> Iterator[Region]:
        state = managers[0].state if managers else ManagerState.UNKNOWN
        for number, (device, ports) in enumerate(_assign_ports(kind, parts)):
            name = f"{card}/{number}"
            slots = tuple(_read_slot(name, index, port) for index, port in enumerate(ports))
            afu = slots[0].afu_id if slots else _read_xclbin_uuid(parts)
            interfaces = _read_interfaces(device, parts)
            yield Region(
                id=name,
                number=number,
                interface_id=interfaces[0] if interfaces else "",
                afu_id=afu,
                bitstream=self.find_content(name, self.folder(card, parts, number), afu),
                state=state,
                mechanism=self._find_region_mechanism(kind, parts, device)
                if ports or kind is not CardKind.DFL
                else None,
                slots=slots,
                nodes=self._read_render_nodes(parts),
                other_interface_ids=interfaces[1:],
            )

    def _find_region_mechanism(
        self, kind: CardKind, parts: CardParts, region: SysfsDevice | None
    ) -> Mechanism | None:
        match kind:
            case CardKind.DFL if parts.engines and parts.engines[0].name.startswith(INTEL_ENGINE):
                return Mechanism.INTEL_PORT
            case CardKind.DFL:
                return Mechanism.DFL_PORT if parts.engines and parts.regions else None
            case CardKind.VFIO:
                return None
            case CardKind.XRT:
                return Mechanism.VENDOR_TOOL if self.region_tool and parts.user is not None else None
            case CardKind.MANAGER if region is None:
                return self._find_card_mechanism(kind, parts)
            case CardKind.MANAGER:
                return self._find_part_mechanism(parts, region)

    def _find_part_mechanism(self, parts: CardParts, region: SysfsDevice | None) -> Mechanism | None:
        """Return the way to program a region of a plain manager, whose bridges must be closed meanwhile."""
        if region is None or len(parts.managers) != 1:
            return None
        if self.overlays and find_tree_path(region):
            return Mechanism.OVERLAY
        # The manager alone does not close a region's bridges, and the kernel has no file that does.
        return Mechanism.FIRMWARE if _takes_files(parts) and not has_bridges(region) else None

    def _find_card_mechanism(self, kind: CardKind, parts: CardParts) -> Mechanism | None:
        match kind:
            case CardKind.DFL:
                return Mechanism.VENDOR_TOOL if kind in self.shell_tools and parts.engines else None
            case CardKind.VFIO:
                return None
            case CardKind.XRT:
                return (
                    Mechanism.VENDOR_TOOL if kind in self.shell_tools and parts.management is not None else None
                )
            case CardKind.MANAGER:
                if len(parts.managers) == 1 and _takes_files(parts):
                    return Mechanism.FIRMWARE
                is_tool = kind in self.shell_tools and len(parts.managers) == 1 and not parts.regions
                return Mechanism.VENDOR_TOOL if is_tool else None

    def _read_pci_location(self, address: str) -> tuple[str, int | None]:
        try:
            found = dra.pci_attributes(address, sysfs=self.sysfs)
        except (dra.DraError, OSError):  # a platform device, or a removed device
            return "", None
        root = found.get("resource.kubernetes.io/pcieRoot")
        node = found.get("resource.kubernetes.io/numaNode")
        return root if isinstance(root, str) else "", node if isinstance(node, int) else None

    def _read_render_nodes(self, parts: CardParts) -> tuple[CardNode, ...]:
        if parts.user is None:
            return ()
        user_folder = parts.user.path
        found = list_devices(self.sysfs, "drm", lambda link: link.name.startswith("renderD"))
        return tuple(node for each in found if each.path.is_relative_to(user_folder) for node in each.node())


def _find_parent(function: SysfsDevice) -> str:
    """Return the first physical function of the slot that a PCI function is in or belongs to; "" for itself.

    Source:
        Documentation/PCI/pci-iov-howto.rst: `physfn` of a virtual function.
    """
    physical = (function.path / "physfn").resolve()
    name = physical.name if (function.path / "physfn").exists() else function.name
    first = f"{name.rpartition('.')[0]}.0"
    return first if first != function.name else ""


def _find_kind(parts: CardParts) -> CardKind:
    if parts.user is not None or parts.management is not None:
        return CardKind.XRT
    if parts.function is not None:
        return CardKind.VFIO
    return CardKind.DFL if parts.engines or parts.ports else CardKind.MANAGER


def _assign_ports(kind: CardKind, parts: CardParts) -> Iterator[tuple[SysfsDevice | None, list[SysfsDevice]]]:
    """Yield the device of each region, with the region's ports.

    The device is None if the kernel has no device for the card's only region.
    """
    ports = sorted(parts.ports, key=_port_id)
    if kind is CardKind.DFL and not parts.regions:
        yield from ((port, [port]) for port in ports)  # a virtual function has no own region
    elif kind is CardKind.DFL:
        # The engine creates a region for each port, in the order of the port IDs. Older engines have one region
        # for all ports. If a virtual function uses a port, the port is missing here and its region cannot be
        # programmed.
        ids = [_port_id(port)[0] for port in ports]
        if ports and max(ids) >= len(parts.regions):
            ids = list(range(len(ports))) if len(ports) == len(parts.regions) else [0] * len(ports)
        for index, region in enumerate(parts.regions):
            yield region, [port for number, port in zip(ids, ports, strict=True) if number == index]
    elif parts.regions:
        yield from ((region, []) for region in parts.regions)
    elif parts.managers or parts.user is not None:
        yield None, []


def _map_ports(card: str, kind: CardKind, parts: CardParts) -> dict[Path, str]:
    """Return the ID of each port's region, by the port's folder."""
    assigned = enumerate(_assign_ports(kind, parts))
    return {port.path: f"{card}/{number}" for number, (_, ports) in assigned for port in ports}


def _takes_files(parts: CardParts) -> bool:
    """Return whether the manager has the attribute `firmware`, which only kernels of vendors add."""
    return (parts.managers[0].path / "firmware").exists()


def _port_id(port: SysfsDevice) -> tuple[int, int]:
    text = port.attribute("id")
    return (int(text) if text.isdecimal() else 0, parse_number(port.name))


def _read_slot(region: str, number: int, port: SysfsDevice) -> Slot:
    return Slot(f"{region}/{number}", number, normalize_id(port.attribute("afu_id")), port.node())


def read_manager(device: SysfsDevice) -> Manager:
    """Return the present state of a manager; its state is UNKNOWN if it no longer exists."""
    return Manager(
        name=device.name,
        label=device.attribute("name"),
        state=_MANAGER_STATES.get(device.attribute("state"), ManagerState.UNKNOWN),
        status=", ".join(device.attribute("status").splitlines()),
    )


def _read_bridge(device: SysfsDevice) -> Bridge:
    return Bridge(device.name, device.attribute("name"), device.attribute("state") == "enabled")


def _read_shell(parts: CardParts) -> str:
    return parts.engines[0].attribute("bitstream_id") if parts.engines else _read_xrt(parts, "rom*/VBNV")


def _read_shell_timestamp(parts: CardParts) -> int:
    text = _read_xrt(parts, "rom*/timestamp")
    return int(text) if text.isdecimal() else 0


def _read_serial(pci: SysfsDevice | None, parts: CardParts) -> str:
    """Return the serial number of the card: the one of XRT's card controller, or the one of the PCI device.

    Source:
        XRT, device_linux.cpp, `xmc_serial_num`; Documentation/ABI/testing/sysfs-bus-pci, `serial_number`
        (the extended capability Device Serial Number of PCI Express).
    """
    return _read_xrt(parts, "xmc*/serial_num") or (pci.attribute("serial_number") if pci is not None else "")


def _read_xrt(parts: CardParts, pattern: str) -> str:
    """Return the first file of an XRT card's functions that matches a pattern; "" if none does."""
    for function in (parts.user, parts.management):
        for name in list_matches(function.path, pattern) if function is not None else ():
            return read(name)
    return ""


def _read_interfaces(device: SysfsDevice | None, parts: CardParts) -> tuple[str, ...]:
    """Return the interfaces of a region. XRT lists one interface a line, for each partition of the shell.

    Source:
        Documentation/ABI/testing/sysfs-class-fpga-region, `compat_id`; XRT, device_linux.cpp,
        `interface_uuids`.
    """
    if device is not None:
        engine_id = parts.engines[0].attribute("pr/interface_id") if parts.engines else ""
        compat_id = normalize_id(device.attribute("compat_id") or engine_id)
        return (compat_id,) if compat_id else ()
    for function in (parts.user, parts.management):
        found = function.attribute("interface_uuids").split() if function is not None else []
        if found:
            return tuple(dict.fromkeys(map(normalize_id, found)))
    return ()


def _read_xclbin_uuid(parts: CardParts) -> str:
    return normalize_id(parts.user.attribute("xclbinuuid")) if parts.user is not None else ""
