"""Computes the devices that a node offers: pure functions convert a view of the cards to a pool.

Law of this package: its functions must not do I/O or read a clock. The devices depend only on the cards, the
node's settings and the records. Every number must come from the card.

- `offers`: devices of one GPU in each mode, and their names.
- `shares`: devices that several claims may have.
- `pool`: the pool with attributes, capacities, counters, groups and taints.
"""

from dradriver_gpu_mig.offer.offers import (
    GpuDeviceKind,
    GpuOffer,
    VfioFacts,
    find_ambiguous_profiles,
    find_offer,
    limit_mode,
    list_offers,
)
from dradriver_gpu_mig.offer.pool import DRIVER, PoolFacts, build_pool, select_non_overlapping

__all__ = [
    "DRIVER",
    "GpuDeviceKind",
    "GpuOffer",
    "PoolFacts",
    "VfioFacts",
    "build_pool",
    "find_ambiguous_profiles",
    "find_offer",
    "limit_mode",
    "list_offers",
    "select_non_overlapping",
]
