"""Real cards: sysfs, uevents (`pyudev`), device nodes, and the vendors' programs.

Law of this package: paths, attributes and numbers of the kernel are used only here. It reads and writes
hardware and makes no decisions. It stores (`records`) only facts that no card can report.

- `hardware`: `RealHardware`, the implementation of `Hardware`.
- `host`: paths and programs of the node.
- `survey`: groups the devices in sysfs into cards.
- `cards`: builds the description of a card from its devices.
- `sysfs`: reads devices in sysfs.
- `uevents`: waits for changes.
- `kernel`: writes attributes and makes ioctls.
- `mechanisms`: the ways to program a card.
- `uninterruptible_write`: a write that cannot be stopped.
- `records`: the bitstreams that this driver has written.
"""

from dradriver_fpga.card.real.hardware import RealHardware
from dradriver_fpga.card.real.host import Host

__all__ = ["Host", "RealHardware"]
