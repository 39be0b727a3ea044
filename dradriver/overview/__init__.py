"""What people see of the devices of a cluster: nodes, cards, partitions, who holds them, and what waits.

Law of this package: it computes values from objects, and draws them for a screen, a page or a file. It does no
I/O, it must not contain tables of products, and it decides nothing: the allocator decides what is in use and
what fits.

- `values`: the values that screens, pages and files draw.
- `tracker`: keeps an overview current while objects change.
- `build`: computes the overview of given objects at once.
- `update`: what an update of the tracker has changed.
- `tracked_pool`: takes the slices of a pool together.
- `pool_reach`: decides which nodes reach a pool.
- `cards`: computes the cards of a pool.
- `claim_index`: finds the claims of pools, the pods that use claims, and what waits.
- `node_labels`: finds the nodes that node selectors match.
- `health`: reads the health of devices from the status of pods.
- `waiting`: finds why pods and claims wait.
- `changes`: describes changes, each in one sentence.
- `counters`: computes the use of counter sets and shares, the rows to draw, and what still fits.
- `drawing`: draws the use of devices as text.
"""

from dradriver.overview.build import build_overview
from dradriver.overview.counters.counter_use import CounterSetUse, CounterUse, HeldDevice, counter_set_uses
from dradriver.overview.counters.largest import LargestDevices, largest_devices
from dradriver.overview.drawing.text import draw_counter_sets
from dradriver.overview.health import assign_health, read_health
from dradriver.overview.tracker import OverviewTracker
from dradriver.overview.update import OverviewUpdate
from dradriver.overview.values import (
    Card,
    CardDevice,
    Health,
    Lane,
    NodeOverview,
    Overview,
    PoolProblem,
    Reach,
    RecentChange,
    Segment,
    Waiting,
)
from dradriver.overview.waiting import NO_SANDBOX, pending_reason

__all__ = [
    "NO_SANDBOX",
    "Card",
    "CardDevice",
    "CounterSetUse",
    "CounterUse",
    "Health",
    "HeldDevice",
    "Lane",
    "LargestDevices",
    "NodeOverview",
    "Overview",
    "OverviewTracker",
    "OverviewUpdate",
    "PoolProblem",
    "Reach",
    "RecentChange",
    "Segment",
    "Waiting",
    "assign_health",
    "build_overview",
    "counter_set_uses",
    "draw_counter_sets",
    "largest_devices",
    "pending_reason",
    "read_health",
]
