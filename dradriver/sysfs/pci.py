"""`resource.kubernetes.io/pciBusID` and `pcieRoot`: the position of a device on the PCI bus."""

import re
from pathlib import Path
from typing import Final

from dradriver.errors import DriverError, NotFoundError
from dradriver.sysfs.files import SYSFS, read_int
from dradriver.sysfs.numa import NumaForm, NumaValue, numa_attribute

__all__ = ["PCIE_ROOT", "PCI_BUS_ID", "pci_attributes"]

PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
_BUS_ID: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")


def pci_attributes(
    bus_id: str, *, numa_form: NumaForm = "scalar", sysfs: Path = SYSFS
) -> dict[str, str | NumaValue]:
    """Return the standard attributes of a PCI device. The call blocks while it reads files.

    The driver combines them with its own attributes:

        dra.Device("gpu-0", attributes={**dra.pci_attributes("0000:65:00.0"), "model": "x"})

    The result always contains `pciBusID`. `pcieRoot` is missing for a device without a PCI root complex, and
    `numaNode` is missing for a device near no NUMA node. If a constraint of a claim compares a missing
    attribute, the claim does not get the device.

    Args:
        bus_id: domain, bus, device and function in the format of sysfs: `0000:65:00.0`.
        numa_form: the form of `numaNode`; see `numa_attribute`.
        sysfs: the mount point of sysfs, for example `/host/sys`.

    Raises:
        DriverError: `bus_id` has another format.
        NotFoundError: the device does not exist.
    """
    if not _BUS_ID.fullmatch(bus_id):
        raise DriverError(f"PCI bus ID {bus_id!r}: must have the form 0000:65:00.0, with lowercase digits")
    link = sysfs / "bus" / "pci" / "devices" / bus_id
    try:
        target = link.readlink()
    except OSError as error:
        raise NotFoundError(f"PCI device {bus_id}: not found: {link}: {error.strerror}") from error
    attributes: dict[str, str | NumaValue] = {PCI_BUS_ID: bus_id}
    if root := _find_root(target, bus_id):
        attributes[PCIE_ROOT] = root
    node = read_int(link / "numa_node")
    if node is not None and node >= 0:
        attributes |= numa_attribute(node, form=numa_form, sysfs=sysfs)
    return attributes


def _find_root(target: Path, bus_id: str) -> str:
    """Return the root complex that a device link names; "" if it names none.

    For the link target ../../../devices/pci0000:64/.../0000:65:00.0 the result is `pci0000:64`.
    """
    match target.parts:
        case ("..", "..", "..", "devices", root, *_, last) if root.startswith("pci") and last == bus_id:
            return root
    return ""
