"""What a node offers: pure functions from a look at the cards to a pool of devices.

Law of this package: no I/O and no clock. What is offered follows from the cards, the node's settings and what
is recorded; every number comes from the card.
"""

from dradriver_gpu_mig.offer.offers import Kind, Offer, ambiguous, named, offers
from dradriver_gpu_mig.offer.pool import DRIVER, Marks, non_overlapping, pool

__all__ = ["DRIVER", "Kind", "Marks", "Offer", "ambiguous", "named", "non_overlapping", "offers", "pool"]
