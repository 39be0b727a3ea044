"""Computes and draws the use of counter sets: which claims have which part of a device.

Law of this package: it must draw only the counters that a driver published, and must not contain tables of
products. `counter_set_uses` and `draw_counter_sets` are pure, so both the command and the demonstration can use
them.

- `largest`: finds the largest devices that still fit.
- `use`: computes the use of counter sets.
- `drawing`: draws the use of counter sets as text.
"""

from dradriver.cli.partitions.drawing import draw_counter_sets
from dradriver.cli.partitions.largest import LargestDevices, largest_devices
from dradriver.cli.partitions.use import CounterSetUse, CounterUse, HeldDevice, counter_set_uses

__all__ = [
    "CounterSetUse",
    "CounterUse",
    "HeldDevice",
    "LargestDevices",
    "counter_set_uses",
    "draw_counter_sets",
    "largest_devices",
]
