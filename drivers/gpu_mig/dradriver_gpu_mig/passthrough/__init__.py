"""Passes whole GPUs to virtual machines: their PCI functions are bound to vfio-pci, and returned afterwards.

Law of this package: the kernel decides which driver a function has, and the records decide which functions must
be returned and to which driver. The record must be on disk before the first function is changed, and must be
deleted only after the last function was returned. A function is bound or unbound only while no process has its
device node open, because the kernel otherwise blocks until the node is closed.

- `binder`: `PassthroughBinder`, which executes the steps.
- `steps`: the table from which the next step is read, and what a crash after each step leaves.
- `functions`: which functions of an IOMMU group are bound, and why a group is refused. Pure.
- `pci`: `PciBus`, the functions in sysfs.
- `open_files`: processes that have a device node open.
- `edits`: the container edits.
"""

from dradriver_gpu_mig.passthrough.binder import PassthroughBinder
from dradriver_gpu_mig.passthrough.edits import has_iommufd, make_passthrough_edits
from dradriver_gpu_mig.passthrough.pci import IommuGroup, PciBus, PciFunctionState

__all__ = [
    "IommuGroup",
    "PassthroughBinder",
    "PciBus",
    "PciFunctionState",
    "has_iommufd",
    "make_passthrough_edits",
]
