"""Computes the pool of a fabric: pure functions convert resources, reports of nodes and settings to devices.

Law of this package: all functions must be pure, and the name of a device must depend only on the fabric's
hardware and on the settings.

- `rules`: the operator's choices.
- `sizes`: sizes of memory that a domain offers.
- `labels`: unique names from the IDs of resources.
- `hosts`: finds the nodes of hosts.
- `offers`: everything that can be attached.
- `taints`: taints of unhealthy devices.
- `devices`: an offer as a device.
- `layout`: `FabricLayout`, the pool, and the pools for an API server that drops fields.
"""

from dradriver_fabric_cxl.offer.devices import MEMORY
from dradriver_fabric_cxl.offer.labels import make_labels
from dradriver_fabric_cxl.offer.layout import FabricLayout
from dradriver_fabric_cxl.offer.offers import FabricOffer
from dradriver_fabric_cxl.offer.rules import OfferRules
from dradriver_fabric_cxl.offer.sizes import round_up

__all__ = ["MEMORY", "FabricLayout", "FabricOffer", "OfferRules", "make_labels", "round_up"]
