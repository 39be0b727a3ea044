"""What is offered of the cards.

Law of this package: pure. Cards and settings in, devices out; names follow from the card's place alone.
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
