"""Functions of OFS cards that an administrator has bound to `vfio-pci`, as OPAE's `opae.io init` does.

This driver binds no function itself. An administrator who binds a function takes it from its kernel driver.

Source:
    OPAE SDK, libopae-c/cfg-file.c (the table of `libopae-v.so`) and plugins/vfio;
    Documentation/driver-api/vfio.rst.
"""

from pathlib import Path
from typing import Final

from dradriver_fpga.card.real.sysfs import SysfsDevice, list_matches, read
from dradriver_fpga.card.values import CardNode

__all__ = ["find_vfio_functions", "read_function_nodes"]

_VENDOR: Final = "0x8086"
_DEVICES: Final = frozenset({"0xaf00", "0xaf01", "0xbcce", "0xbccf"})
_BRIDGE_CLASS: Final = "0x0604"


def find_vfio_functions(sysfs: Path) -> list[SysfsDevice]:
    """Return the functions that can be handed to a container, in the order of their addresses.

    Two kinds of functions are left out, because their user could do more than use them:

    - physical function 0: it contains the management engine, which programs the whole card.
    - a function whose IOMMU group contains another function: the group's device node opens all of them.
    """
    bound = list_matches(sysfs / "bus" / "pci" / "drivers" / "vfio-pci", "????:??:??.?")
    return [device for link in bound if _is_usable(device := SysfsDevice(link.resolve()))]


def read_function_nodes(sysfs: Path, function: SysfsDevice | None) -> tuple[CardNode, ...]:
    """Return `/dev/vfio/GROUP` and `/dev/vfio/vfio`; empty if one of them, or the function, does not exist."""
    if function is None:
        return ()
    group = (function.path / "iommu_group").resolve().name
    group_node = SysfsDevice((sysfs / "class" / "vfio" / group).resolve()).node()
    container_node = SysfsDevice((sysfs / "class" / "misc" / "vfio").resolve()).node()
    return (*group_node, *container_node) if group_node and container_node else ()


def _is_usable(device: SysfsDevice) -> bool:
    if device.attribute("vendor") != _VENDOR or device.attribute("device") not in _DEVICES:
        return False
    is_virtual = (device.path / "physfn").exists()
    return (is_virtual or not device.name.endswith(".0")) and _is_alone(device)


def _is_alone(device: SysfsDevice) -> bool:
    others = [
        each for each in list_matches(device.path / "iommu_group" / "devices", "*") if each.name != device.name
    ]
    return all(read(each / "class").startswith(_BRIDGE_CLASS) for each in others)
