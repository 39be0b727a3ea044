"""IDs of cards as names of devices."""

import hashlib
import re
from typing import Final

__all__ = ["card_name"]

_PCI: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_LONGEST: Final = 40
"""Characters: a region's, a slot's and a shell's name follow it in a device's name, which has 63."""


def card_name(card: str) -> str:
    """The ID as a DNS label, different for each ID: `pci-0000-3b-00-0`, `platform-axi-f8007000-devcfg`."""
    bus = "pci" if _PCI.fullmatch(card) else "platform"
    label = f"{bus}-{re.sub('[^a-z0-9]+', '-', card.lower()).strip('-')}"
    if len(label) <= _LONGEST and bus == "pci":
        return label
    # Signs that a label can't have become dashes, so two paths may read alike.
    return f"{label[: _LONGEST - 7].rstrip('-')}-{hashlib.sha256(card.encode()).hexdigest()[:6]}"
