"""The operator's choices for the pool of a fabric."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["OfferRules"]


@dataclass(frozen=True, slots=True)
class OfferRules:
    """What a fabric offers.

    Attributes:
        pool: name of the pool; "": made of the fabric's ID. Two clusters that share a fabric must have
            different names: the driver removes chunks of its pool that no claim has.
        hosts: names of nodes by the ID of their host. Other hosts are found by the UUID of their computer.
        sizes: sizes of memory in mebibytes; empty: four sizes from the domain's minimum in powers of two.
        whole_domains: whether a domain is one device that claims share. Such a device does not count the
            attachments of hosts: a claim fails, and is scheduled again, if its host has no attachment left.
        default_attachments: attachments of a host whose limit the manager does not report.
    """

    pool: str = ""
    hosts: Mapping[str, str] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()
    whole_domains: bool = False
    default_attachments: int = 4
