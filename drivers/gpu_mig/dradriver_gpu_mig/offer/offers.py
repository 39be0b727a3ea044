"""Which devices a GPU offers in which mode, and what they are called."""

import enum
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dradriver_gpu_mig.card import Gpu, MigDevice, Placement, Profile
from dradriver_gpu_mig.settings import Mode, Switching
from dradriver_gpu_mig.snapshot import Card

__all__ = ["Kind", "Offer", "ambiguous", "gpu_name", "named", "offers", "switchable"]

_SWITCHES_WITHOUT_RESET: Final = (9, 0)
"""CUDA compute capability of Hopper: from there on MIG is switched at once; before, by the next reset."""


_PLAIN: Final = re.compile(r"[0-9]+g\.[0-9]+gb(\+[a-z]+(\.[a-z]+)*)?")
"""Names of profiles that differ still when their signs become a minus: `1g.5gb+me`, `1g.24gb+me.all`."""
_LONGEST: Final = 24
"""Characters of a profile in a device's name, which has at most 63."""


class Kind(enum.Enum):
    """What a device is."""

    WHOLE = "gpu"
    PLACE = "a MIG device that is made when it is prepared"
    FOUND = "a MIG device that is there"


@dataclass(frozen=True, slots=True)
class Offer:
    """One device.

    Attributes:
        name: the device's name, from the PCI address, the profile and the place.
        card: the GPU that it is, or is a part of.
        kind: what it is.
        profile, placement: of a MIG device.
        mig: the MIG device that is there already.
    """

    name: str
    card: Card
    kind: Kind
    profile: Profile | None = None
    placement: Placement | None = None
    mig: MigDevice | None = None


def gpu_name(gpu: Gpu) -> str:
    """`gpu-0000-07-00-0`: the PCI address, which neither a reboot nor the other GPUs change."""
    return "gpu-" + gpu.pci_address.lower().replace(":", "-").replace(".", "-")


def switchable(card: Card, switching: Switching) -> bool:
    """Whether MIG may be switched on the GPU when a claim needs it."""
    can = card.gpu.mig is not None and card.gpu.compute_capability >= _SWITCHES_WITHOUT_RESET
    return can and switching is Switching.ON_DEMAND


def offers(card: Card, mode: Mode, switching: Switching) -> list[Offer]:
    """The devices of one GPU, smallest first, the whole GPU last."""
    return [*_mig(card, mode, switching), *_whole(card, mode, switching)]


def named(card: Card, mode: Mode, name: str) -> Offer | None:
    """The device of a name, whether or not the GPU offers it in its present layout.

    Args:
        card: the GPU.
        mode: what the node offers.
        name: the device's.
    """
    whole = Offer(gpu_name(card.gpu), card, Kind.WHOLE)
    found = next((offer for offer in (*_places(card), whole) if offer.name == name), None)
    if found is not None and found.kind is Kind.PLACE and mode is Mode.STATIC:
        return replace(found, kind=Kind.FOUND)
    return found


def _whole(card: Card, mode: Mode, switching: Switching) -> Iterator[Offer]:
    """Programs can't use a GPU that is divided as a whole."""
    if not card.divided or (mode is not Mode.STATIC and switchable(card, switching)):
        yield Offer(gpu_name(card.gpu), card, Kind.WHOLE)


def _mig(card: Card, mode: Mode, switching: Switching) -> Iterator[Offer]:
    if mode is Mode.STATIC and card.divided:
        yield from sorted(_found(card), key=_size)
    elif mode is Mode.DYNAMIC and (card.divided or switchable(card, switching)):
        yield from sorted(_places(card), key=_size)


def _found(card: Card) -> Iterator[Offer]:
    refused = {number for numbers in ambiguous(card).values() for number in numbers}
    for instance in card.instances:
        profile, placement = card.profile(instance.gpu_instance.profile_id), instance.gpu_instance.placement
        if profile is not None and profile.id not in refused and instance.whole is not None:
            yield Offer(_name(card, profile, placement), card, Kind.FOUND, profile, placement, instance.whole)


def _places(card: Card) -> Iterator[Offer]:
    refused = {number for numbers in ambiguous(card).values() for number in numbers}
    for profile in card.profiles:
        for placement in profile.placements if profile.id not in refused else ():
            yield Offer(_name(card, profile, placement), card, Kind.PLACE, profile, placement)


def _size(offer: Offer) -> tuple[int, int, int, int]:
    if offer.profile is None or offer.placement is None:
        return (0, 0, 0, 0)
    return (offer.placement.size, offer.profile.slices, -offer.profile.max_instances, offer.placement.start)


def ambiguous(card: Card) -> Mapping[str, Sequence[int]]:
    """The IDs of profiles that would have the same devices' names, by the label that they share.

    None of them is offered: a claim for the one could get the other. NVML calls no two profiles of a GPU alike;
    this is for a driver that does.
    """
    labels = Counter(_label(profile) for profile in card.profiles)
    return {
        label: sorted(profile.id for profile in card.profiles if _label(profile) == label)
        for label, count in labels.items()
        if count > 1
    }


def _name(card: Card, profile: Profile, placement: Placement) -> str:
    return f"{gpu_name(card.gpu)}-mig-{_label(profile)}-{placement.start}"


def _label(profile: Profile) -> str:
    """The profile as a part of a device's name: `1g-5gb-me` of `1g.5gb+me`, `1g-24gb-me-67` of `1g.24gb-me`.

    A name of Kubernetes has neither dot nor plus, so both become a minus. A profile whose own name has a minus,
    or is formed otherwise, carries its ID, which tells it from those that read alike. That follows from the
    profile alone: no device in use gets another name when a driver brings a new profile.
    """
    if len(profile.name) <= _LONGEST and _PLAIN.fullmatch(profile.name):
        return profile.name.replace(".", "-").replace("+", "-")
    label = re.sub("[^a-z0-9]+", "-", profile.name.lower())[:_LONGEST].strip("-")
    return f"{label}-{profile.id}".strip("-")
