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
    """Return the standard attributes of a PCI device, to combine with its own; blocks on the disk.

        dra.Device("gpu-0", attributes={**dra.pci_attributes("0000:65:00.0"), "model": "x"})

    `pciBusID` is always present. `pcieRoot` is missing for a device without a PCI root complex, and `numaNode`
    for a device near no NUMA node. Claims that match these attributes do not get such a device.

    Args:
        bus_id: domain, bus, device and function, as in sysfs: `0000:65:00.0`.
        numa_form: a number or a list; see `numa_attribute`.
        sysfs: the mount point of sysfs, for example `/host/sys`.

    Raises:
        DriverError: `bus_id` has another format.
        NotFoundError: the device does not exist.
    """
    if not _BUS_ID.fullmatch(bus_id):
        raise DriverError(
            f"{bus_id!r} is no PCI bus ID as Kubernetes writes it: 0000:65:00.0, in small letters"
        )
    link = sysfs / "bus" / "pci" / "devices" / bus_id
    try:
        target = link.readlink()
    except OSError as error:
        raise NotFoundError(f"PCI device {bus_id} can't be found: {link}: {error.strerror}") from error
    attributes: dict[str, str | NumaValue] = {PCI_BUS_ID: bus_id}
    if root := _root(target, bus_id):
        attributes[PCIE_ROOT] = root
    node = read_int(link / "numa_node")
    if node is not None and node >= 0:
        attributes |= numa_attribute(node, form=numa_form, sysfs=sysfs)
    return attributes


def _root(target: Path, bus_id: str) -> str:
    """Return the root complex in the device's link: ../../../devices/pci0000:64/.../0000:65:00.0."""
    match target.parts:
        case ("..", "..", "..", "devices", root, *_, last) if root.startswith("pci") and last == bus_id:
            return root
    return ""
