"""Use of counter sets, and a drawing of it: which claims have which part of a device.

Law of this package: everything drawn comes from the counters that a driver published, and nothing from tables
of products. `counter_set_uses` and `drawing` are pure, so the demonstration uses them like the command.

- `use`: computes the use of counter sets.
- `drawing`: draws it as text.
"""

from dradriver.cli.partitions.drawing import drawing
from dradriver.cli.partitions.use import CounterSetUse, CounterUse, HoldingPod, counter_set_uses

__all__ = ["CounterSetUse", "CounterUse", "HoldingPod", "counter_set_uses", "drawing"]
