"""Devices that a node offers: pure functions from a view of the cards to a pool.

Law of this package: no I/O and no clock. The offer follows from the cards, the node's settings and the
records. Every number comes from the card.

- `offers`: devices of one GPU in each mode, and their names.
- `pool`: the pool with attributes, capacities, counters, groups and taints.
"""

from dradriver_gpu_mig.offer.offers import Kind, Offer, ambiguous, named, offers
from dradriver_gpu_mig.offer.pool import DRIVER, Marks, non_overlapping, pool

__all__ = ["DRIVER", "Kind", "Marks", "Offer", "ambiguous", "named", "non_overlapping", "offers", "pool"]
