"""Devices that a GPU offers in each mode, and their names."""

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
"""CUDA compute capability of Hopper.

From Hopper on MIG switches at once; earlier GPUs switch at the next reset.
"""


_PLAIN: Final = re.compile(r"[0-9]+g\.[0-9]+gb(\+[a-z]+(\.[a-z]+)*)?")
"""Profile names that stay distinct when `.` and `+` become `-`: `1g.5gb+me`, `1g.24gb+me.all`."""
_LONGEST: Final = 24
"""Characters of the profile in a device name. A device name has at most 63 characters."""


class Kind(enum.Enum):
    """Kind of a device."""

    WHOLE = "gpu"
    PLACE = "a MIG device that is made when it is prepared"
    FOUND = "a MIG device that is there"


@dataclass(frozen=True, slots=True)
class Offer:
    """One device.

    Attributes:
        name: device name, from the PCI address, the profile and the start of the placement.
        card: the GPU that the device is, or that contains it.
        kind: kind of the device.
        profile, placement: those of a MIG device, else None.
        mig: the MIG device if it exists already.
    """

    name: str
    card: Card
    kind: Kind
    profile: Profile | None = None
    placement: Placement | None = None
    mig: MigDevice | None = None


def gpu_name(gpu: Gpu) -> str:
    """Return the name of a GPU, such as `gpu-0000-07-00-0`.

    It is made of the PCI address, which neither a reboot nor other GPUs change.
    """
    return "gpu-" + gpu.pci_address.lower().replace(":", "-").replace(".", "-")


def switchable(card: Card, switching: Switching) -> bool:
    """Return whether MIG may be switched on the GPU when a claim needs it."""
    can = card.gpu.mig is not None and card.gpu.compute_capability >= _SWITCHES_WITHOUT_RESET
    return can and switching is Switching.ON_DEMAND


def offers(card: Card, mode: Mode, switching: Switching) -> list[Offer]:
    """Return the devices of one GPU, smallest first and the whole GPU last."""
    return [*_mig(card, mode, switching), *_whole(card, mode, switching)]


def named(card: Card, mode: Mode, name: str) -> Offer | None:
    """Return the device with a name, even if the GPU does not offer it in its present layout.

    Args:
        card: the GPU.
        mode: kind of devices that the node offers.
        name: name of the device.

    Returns:
        The device, or None if the GPU has no device with this name.
    """
    whole = Offer(gpu_name(card.gpu), card, Kind.WHOLE)
    found = next((offer for offer in (*_places(card), whole) if offer.name == name), None)
    if found is not None and found.kind is Kind.PLACE and mode is Mode.STATIC:
        return replace(found, kind=Kind.FOUND)
    return found


def _whole(card: Card, mode: Mode, switching: Switching) -> Iterator[Offer]:
    """Yield the whole GPU if MIG is off or may be switched off.

    Programs cannot use a divided GPU as a whole.
    """
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
    """Return the IDs of profiles that would share device names, by their common label.

    None of these profiles is offered, because a claim for one could get the other. NVML gives the profiles of a
    GPU distinct names. This check covers a driver that does not.
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
    """Return the profile as part of a device name.

    `1g.5gb+me` becomes `1g-5gb-me`, and `1g.24gb-me` with ID 67 becomes `1g-24gb-me-67`. A Kubernetes name has
    neither dot nor plus, so both become a minus. A profile whose own name has a minus, or has another form,
    carries its ID to keep similar names distinct. The label depends on the profile alone: devices in use keep
    their names when a new driver adds profiles.
    """
    if len(profile.name) <= _LONGEST and _PLAIN.fullmatch(profile.name):
        return profile.name.replace(".", "-").replace("+", "-")
    label = re.sub("[^a-z0-9]+", "-", profile.name.lower())[:_LONGEST].strip("-")
    return f"{label}-{profile.id}".strip("-")
