"""Everything that a fabric can attach, whether it has a node or not."""

from collections.abc import Iterator
from dataclasses import dataclass

from dradriver_fabric_cxl.fabric import Accelerator, FabricInventory, Host, MemoryDomain
from dradriver_fabric_cxl.offer.rules import OfferRules
from dradriver_fabric_cxl.offer.sizes import list_sizes

__all__ = ["FabricOffer", "count_attachments", "list_offers", "list_shared_parts"]


@dataclass(frozen=True, slots=True)
class FabricOffer:
    """Something that can be attached.

    Attributes:
        source: the memory domain or the accelerator.
        host: the host that it is attached to; None: the host of the node that the claim is allocated for.
        mebibytes: size of the memory; 0 for an accelerator, and for a domain as a whole.
        number: number among the equal offers.
    """

    source: MemoryDomain | Accelerator
    host: Host | None = None
    mebibytes: int = 0
    number: int = 0

    @property
    def is_memory(self) -> bool:
        """Whether it is memory, and not an accelerator."""
        return isinstance(self.source, MemoryDomain)

    @property
    def key(self) -> tuple[str, ...]:
        """The kind, and the parts of the device's name: they depend on hardware and settings only."""
        host = (self.host.id,) if self.host else ()
        size = (_format_size(self.mebibytes), str(self.number)) if self.mebibytes else ()
        return ("memory" if self.is_memory else "accelerator", self.source.id, *host, *size)


def list_offers(inventory: FabricInventory, rules: OfferRules) -> list[FabricOffer]:
    """Return the offers of a fabric, smallest first.

    Args:
        inventory: resources of the fabric.
        rules: the operator's choices.
    """
    offers = [FabricOffer(each) for each in inventory.accelerators]
    for domain in _usable_domains(inventory):
        if rules.whole_domains:
            offers.append(FabricOffer(domain))
        else:
            offers += _list_chunks(domain, inventory, rules)
    return sorted(offers, key=_order)


def list_shared_parts(inventory: FabricInventory, rules: OfferRules) -> list[FabricOffer]:
    """Return offers of parts of domains for all hosts, smallest first.

    They are for a pool that cannot select the nodes of single devices.

    Args:
        inventory: resources of the fabric.
        rules: the operator's choices.
    """
    attachments = sum(count_attachments(host, rules) for host in inventory.hosts)
    offers = [
        FabricOffer(domain, None, size, number)
        for domain in _usable_domains(inventory)
        for size in list_sizes(domain, rules.sizes)
        for number in range(min(attachments, domain.mebibytes // size))
    ]
    return sorted(offers, key=_order)


def count_attachments(host: Host, rules: OfferRules) -> int:
    """Return how many attachments a host can have at the same time.

    Args:
        host: the host.
        rules: the operator's choices.
    """
    return rules.default_attachments if host.max_attachments is None else host.max_attachments


def _usable_domains(inventory: FabricInventory) -> Iterator[MemoryDomain]:
    return (each for each in inventory.domains if each.makes_chunks)


def _list_chunks(domain: MemoryDomain, inventory: FabricInventory, rules: OfferRules) -> Iterator[FabricOffer]:
    for host in inventory.hosts:
        for size in list_sizes(domain, rules.sizes):
            for number in range(min(count_attachments(host, rules), domain.mebibytes // size)):
                yield FabricOffer(domain, host, size, number)


def _order(offer: FabricOffer) -> tuple[int, str, str, int]:
    return offer.mebibytes, offer.source.id, offer.host.id if offer.host else "", offer.number


def _format_size(mebibytes: int) -> str:
    return f"{mebibytes >> 10}gi" if mebibytes % 1024 == 0 else f"{mebibytes}mi"
