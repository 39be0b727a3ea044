"""Devices that a node offers: pure functions from cards and settings to a pool.

Law of this package: it is pure, and names of devices depend only on the card's place and its interfaces.

- `offers`: devices of one card, and the next step to program one.
- `pool`: the pool with attributes, counters, groups, conditions and taints.
- `taints`: taints of faulty and pulled cards.
"""

from dradriver_fpga.offer.offers import Kind, Offer, Step, next_step, offers
from dradriver_fpga.offer.pool import DRIVER, FAILED, PROGRAMMED, pool, safe_without
from dradriver_fpga.offer.taints import removed, taints

__all__ = [
    "DRIVER",
    "FAILED",
    "PROGRAMMED",
    "Kind",
    "Offer",
    "Step",
    "next_step",
    "offers",
    "pool",
    "removed",
    "safe_without",
    "taints",
]
