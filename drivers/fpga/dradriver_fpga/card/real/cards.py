"""Builds a `Card` from the devices in sysfs."""

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import dradriver as dra
from dradriver_fpga.card.names import card_name
from dradriver_fpga.card.real.survey import Parts
from dradriver_fpga.card.real.sysfs import SysfsDevice, matches, members, number_of, pci_address, read
from dradriver_fpga.card.values import (
    Bridge,
    Card,
    CardKind,
    CardNode,
    Manager,
    ManagerState,
    Mechanism,
    Region,
    Slot,
    normal_id,
)

__all__ = ["Held", "Reader", "read_manager"]

Held: TypeAlias = Callable[[str, Path, str], str]
"""Returns the sha256 of a target's content, from its ID, its folder and the AFU ID that it reports."""

_STATES: Final = {state.value: state for state in ManagerState}


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads cards.

    Attributes:
        sysfs: mount point of sysfs.
        held: returns the known content of a target.
        region_tool: whether the vendor's program for regions is installed.
        shell_tools: the kinds of cards whose program for shells is installed.
    """

    sysfs: Path
    held: Held
    region_tool: bool
    shell_tools: Set[CardKind]

    def card(self, name: str, parts: Parts) -> Card:
        """Return the card with an ID."""
        kind = _kind(parts)
        managers = tuple(map(read_manager, parts.managers))
        regions = tuple(self._regions(name, kind, parts, managers))
        interfaces = {region.interface_id for region in regions}
        address = pci_address(Path(name))
        pci = SysfsDevice(self.sysfs / "bus" / "pci" / "devices" / address)
        root, numa = self._place(address)
        return Card(
            id=name,
            name=card_name(name),
            kind=kind,
            vendor=pci.attribute("vendor").removeprefix("0x") if address else "",
            device=pci.attribute("device").removeprefix("0x") if address else "",
            shell=_shell(parts),
            interface_id=interfaces.pop() if len(interfaces) == 1 else "",
            bitstream=self.held(name, self.folder(name, parts), ""),
            pci_address=address,
            pcie_root=root,
            numa_node=numa,
            mechanism=self._card_mechanism(kind, parts),
            regions=regions,
            managers=managers,
            bridges=tuple(map(_bridge, parts.bridges)),
            management=tuple(node for engine in parts.engines for node in engine.node()),
        )

    def folder(self, name: str, parts: Parts, region: int | None = None) -> Path:
        """Return a folder that exists as long as the card, or as long as one of its regions."""
        if region is not None and (device := list(_with_ports(_kind(parts), parts))[region][0]) is not None:
            return device.path
        address = pci_address(Path(name))
        if address:
            return (self.sysfs / "bus" / "pci" / "devices" / address).resolve()
        devices = [*parts.managers, *parts.regions]
        return devices[0].path if devices else self.sysfs / "devices" / name

    def _regions(
        self, card: str, kind: CardKind, parts: Parts, managers: tuple[Manager, ...]
    ) -> Iterator[Region]:
        state = managers[0].state if managers else ManagerState.UNKNOWN
        for number, (device, ports) in enumerate(_with_ports(kind, parts)):
            name = f"{card}/{number}"
            slots = tuple(_slot(name, index, port) for index, port in enumerate(ports))
            afu = slots[0].afu_id if slots else _xclbin(parts)
            yield Region(
                id=name,
                number=number,
                interface_id=_interface(device, parts),
                afu_id=afu,
                bitstream=self.held(name, self.folder(card, parts, number), afu),
                state=state,
                mechanism=self._region_mechanism(kind, parts) if ports or kind is not CardKind.DFL else None,
                slots=slots,
                nodes=self._render_nodes(parts),
            )

    def _region_mechanism(self, kind: CardKind, parts: Parts) -> Mechanism | None:
        match kind:
            case CardKind.DFL:
                return Mechanism.DFL_PORT if parts.engines and parts.regions else None
            case CardKind.XRT:
                return Mechanism.VENDOR_TOOL if self.region_tool and parts.user is not None else None
            case CardKind.MANAGER:
                return self._card_mechanism(kind, parts)

    def _card_mechanism(self, kind: CardKind, parts: Parts) -> Mechanism | None:
        match kind:
            case CardKind.DFL:
                return Mechanism.VENDOR_TOOL if kind in self.shell_tools and parts.engines else None
            case CardKind.XRT:
                return (
                    Mechanism.VENDOR_TOOL if kind in self.shell_tools and parts.management is not None else None
                )
            case CardKind.MANAGER:
                # The mainline kernel has no such attribute. There, only device tree overlays can program.
                writable = len(parts.managers) == 1 and (parts.managers[0].path / "firmware").exists()
                return Mechanism.FIRMWARE if writable else None

    def _place(self, address: str) -> tuple[str, int | None]:
        try:
            found = dra.pci_attributes(address, sysfs=self.sysfs)
        except (dra.DraError, OSError):  # a platform device, or a removed one
            return "", None
        root = found.get("resource.kubernetes.io/pcieRoot")
        node = found.get("resource.kubernetes.io/numaNode")
        return root if isinstance(root, str) else "", node if isinstance(node, int) else None

    def _render_nodes(self, parts: Parts) -> tuple[CardNode, ...]:
        if parts.user is None:
            return ()
        owner = parts.user.path
        found = members(self.sysfs, "drm", lambda link: link.name.startswith("renderD"))
        return tuple(node for each in found if each.path.is_relative_to(owner) for node in each.node())


def _kind(parts: Parts) -> CardKind:
    if parts.user is not None or parts.management is not None:
        return CardKind.XRT
    return CardKind.DFL if parts.engines or parts.ports else CardKind.MANAGER


def _with_ports(kind: CardKind, parts: Parts) -> Iterator[tuple[SysfsDevice | None, list[SysfsDevice]]]:
    """Yield each region with the ports that it reconfigures. A region without a kernel device is None."""
    ports = sorted(parts.ports, key=_port_id)
    if kind is CardKind.DFL and not parts.regions:
        yield from ((port, [port]) for port in ports)  # a virtual function: its region is the physical one's
    elif kind is CardKind.DFL:
        # The engine creates a region for each port, in the order of their IDs. Older engines have one region
        # for all ports. A port that a virtual function uses is missing, and its region cannot be programmed.
        ids = [_port_id(port)[0] for port in ports]
        if ports and max(ids) >= len(parts.regions):
            ids = list(range(len(ports))) if len(ports) == len(parts.regions) else [0] * len(ports)
        for index, region in enumerate(parts.regions):
            yield region, [port for number, port in zip(ids, ports, strict=True) if number == index]
    elif parts.regions:
        yield from ((region, []) for region in parts.regions)
    elif parts.managers or parts.user is not None:
        yield None, []


def _port_id(port: SysfsDevice) -> tuple[int, int]:
    text = port.attribute("id")
    return (int(text) if text.isdecimal() else 0, number_of(port.name))


def _slot(region: str, number: int, port: SysfsDevice) -> Slot:
    return Slot(f"{region}/{number}", number, normal_id(port.attribute("afu_id")), port.node())


def read_manager(device: SysfsDevice) -> Manager:
    """Return the present state of a manager; UNKNOWN if it no longer exists."""
    return Manager(
        name=device.name,
        label=device.attribute("name"),
        state=_STATES.get(device.attribute("state"), ManagerState.UNKNOWN),
        status=", ".join(device.attribute("status").splitlines()),
    )


def _bridge(device: SysfsDevice) -> Bridge:
    return Bridge(device.name, device.attribute("name"), device.attribute("state") == "enabled")


def _shell(parts: Parts) -> str:
    if parts.engines:
        return parts.engines[0].attribute("bitstream_id")
    for function in (parts.user, parts.management):
        for name in matches(function.path, "rom*/VBNV") if function is not None else ():
            return read(name)
    return ""


def _interface(device: SysfsDevice | None, parts: Parts) -> str:
    if device is not None:
        return normal_id(device.attribute("compat_id"))
    for function in (parts.user, parts.management):
        found = function.attribute("interface_uuids").split() if function is not None else []
        if found:
            return normal_id(found[0])
    return ""


def _xclbin(parts: Parts) -> str:
    return normal_id(parts.user.attribute("xclbinuuid")) if parts.user is not None else ""
