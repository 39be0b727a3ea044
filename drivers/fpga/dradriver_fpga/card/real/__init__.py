"""Real cards: sysfs, uevents (`pyudev`), device nodes, and the vendors' programs.

Law of this package: paths, attributes and numbers of the kernel stay in here. It asks and tells; it decides
nothing. What it remembers (`records`) is only what no card can be asked.
"""

from dradriver_fpga.card.real.hardware import RealHardware
from dradriver_fpga.card.real.host import Host

__all__ = ["Host", "RealHardware"]
