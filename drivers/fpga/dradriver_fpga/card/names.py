"""Device names from IDs of cards."""

import hashlib
import re
from typing import Final

__all__ = ["card_name"]

_PCI: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_LONGEST: Final = 40
"""Largest number of characters. In a device name with at most 63, names of a region, slot and shell follow."""


def card_name(card: str) -> str:
    """Return the ID as a unique DNS label: `pci-0000-3b-00-0`, `platform-axi-f8007000-devcfg-` and a hash."""
    bus = "pci" if _PCI.fullmatch(card) else "platform"
    label = f"{bus}-{re.sub('[^a-z0-9]+', '-', card.lower()).strip('-')}"
    if len(label) <= _LONGEST and bus == "pci":
        return label
    # Characters that a label cannot have become dashes, so two paths can give the same label without the hash.
    return f"{label[: _LONGEST - 7].rstrip('-')}-{hashlib.sha256(card.encode()).hexdigest()[:6]}"
