"""Real cards: sysfs, uevents (`pyudev`), device nodes, and the vendors' programs.

Law of this package: no other package may use paths, attributes and numbers of the kernel. This package reads
and writes the hardware and must not make decisions. It may store (`records`) only facts that no card can
report.

- `hardware`: `RealFpgas`, the implementation of `FpgaHardware`.
- `host`: paths and programs of the node.
- `survey`: finds which devices in sysfs belong to which card.
- `cards`: builds the description of a card from its devices.
- `sensors`: reads error registers, temperatures and states.
- `sysfs`: reads devices in sysfs.
- `uevents`: waits for changes.
- `overlays`: programs a region by a device tree overlay.
- `vfio`: functions of OFS cards that are bound to vfio-pci.
- `intel_driver`: devices and ioctls of Intel's out-of-tree driver.
- `mechanisms`: writes attributes, makes ioctls, and programs a card.
- `card_locks`: one process at a time programs a card.
- `uninterruptible_write`: a write that cannot be stopped.
- `records`: the bitstreams that this driver has written.
"""

from dradriver_fpga.card.real.hardware import RealFpgas
from dradriver_fpga.card.real.host import FpgaHost

__all__ = ["FpgaHost", "RealFpgas"]
