"""Who has which part of a device: the counter sets of pools as they are used, and a drawing of them.

Law of this package: whatever is drawn comes from the counters that a driver published, nothing from tables of
products. `counter_set_uses` and `drawing` are pure: a demonstration shows with them what a command does.
"""

from dradriver.cli.partitions.drawing import drawing
from dradriver.cli.partitions.use import CounterSetUse, CounterUse, HoldingPod, counter_set_uses

__all__ = ["CounterSetUse", "CounterUse", "HoldingPod", "counter_set_uses", "drawing"]
