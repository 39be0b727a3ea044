"""Computes the devices that a node offers: pure functions convert cards and settings to a pool.

Law of this package: all functions must be pure, and names of devices must depend only on the card's address and
interfaces.

- `list_offers`: devices of one card, and the next step to program a device.
- `build_pool`: the pool with attributes, counters, groups, conditions and taints.
- `make_fault_taints`: taints of faulty and pulled cards.
"""

from dradriver_fpga.offer.offers import FpgaDeviceKind, FpgaOffer, ProgrammingStep, list_offers, next_step
from dradriver_fpga.offer.pool import DRIVER, FAILED, PROGRAMMED, build_pool, select_safe_without
from dradriver_fpga.offer.taints import make_fault_taints, make_removed_taints

__all__ = [
    "DRIVER",
    "FAILED",
    "PROGRAMMED",
    "FpgaDeviceKind",
    "FpgaOffer",
    "ProgrammingStep",
    "build_pool",
    "list_offers",
    "make_fault_taints",
    "make_removed_taints",
    "next_step",
    "select_safe_without",
]
