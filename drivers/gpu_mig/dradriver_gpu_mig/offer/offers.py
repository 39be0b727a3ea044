"""Devices that a GPU offers in each mode, and their names."""

import enum
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dradriver_gpu_mig.card import Gpu, MigDevice, Placement, Profile, Virtualization
from dradriver_gpu_mig.settings import MigSwitching, Mode
from dradriver_gpu_mig.snapshot import GpuCard

__all__ = [
    "GpuDeviceKind",
    "GpuOffer",
    "VfioFacts",
    "can_switch_mig",
    "find_ambiguous_profiles",
    "find_offer",
    "limit_mode",
    "list_offers",
    "make_gpu_name",
]

_FIRST_SWITCHING_WITHOUT_RESET: Final = (9, 0)
"""CUDA compute capability of Hopper.

From Hopper on, GPUs switch MIG at once. Earlier GPUs switch MIG at the next reset.
"""


_DISTINCT_NAME: Final = re.compile(r"[0-9]+g\.[0-9]+gb(\+[a-z]+(\.[a-z]+)*)?")
"""Profile names that stay distinct when `.` and `+` become `-`: `1g.5gb+me`, `1g.24gb+me.all`."""
_MAX_LABEL: Final = 24
"""Maximum number of characters for the profile in a device name. A device name has at most 63 characters."""


class GpuDeviceKind(enum.Enum):
    """Kind of a device."""

    GPU = "gpu"
    DYNAMIC_MIG = "a MIG device that prepare creates"
    STATIC_MIG = "a MIG device that exists"
    VFIO = "a GPU for a virtual machine"

    @property
    def is_whole(self) -> bool:
        """Whether the device is a whole GPU."""
        return self in {GpuDeviceKind.GPU, GpuDeviceKind.VFIO}


@dataclass(frozen=True, slots=True)
class VfioFacts:
    """Properties of a GPU's PCI function, which a virtual machine gets.

    Attributes:
        vendor_id, device_id: as in sysfs: `0x10de`, `0x2331`.
        addressable_memory: bytes of the PCI window that a virtual machine needs.
        has_iommufd: whether the node has `/dev/iommu`.
    """

    vendor_id: str
    device_id: str
    addressable_memory: int
    has_iommufd: bool


@dataclass(frozen=True, slots=True)
class GpuOffer:
    """One device that a GPU offers or can offer.

    Attributes:
        name: device name, from the PCI address, the profile and the start of the placement.
        card: the GPU itself, or the GPU that contains the MIG device.
        kind: kind of the device.
        profile, placement: profile and placement of a MIG device; None for a whole GPU.
        mig: the MIG device if it exists already.
        vfio: the PCI function of a GPU for a virtual machine; None for other devices.
    """

    name: str
    card: GpuCard
    kind: GpuDeviceKind
    profile: Profile | None = None
    placement: Placement | None = None
    mig: MigDevice | None = None
    vfio: VfioFacts | None = None


def make_gpu_name(gpu: Gpu) -> str:
    """Return the name of a GPU, such as `gpu-0000-07-00-0`.

    The name contains the PCI address. Neither a reboot nor a change of other GPUs changes this address.
    """
    return "gpu-" + gpu.pci_address.lower().replace(":", "-").replace(".", "-")


def can_switch_mig(card: GpuCard, switching: MigSwitching) -> bool:
    """Return whether the driver may switch MIG on or off on the GPU when a claim needs it."""
    is_capable = card.gpu.mig is not None and card.gpu.compute_capability >= _FIRST_SWITCHING_WITHOUT_RESET
    is_physical = card.gpu.virtualization in {Virtualization.NONE, Virtualization.PASSTHROUGH}
    return is_capable and is_physical and switching is MigSwitching.ON_DEMAND


def limit_mode(gpu: Gpu, mode: Mode) -> Mode | None:
    """Return the mode in which a GPU can be offered; None: not at all.

    A hypervisor decides how a vGPU is divided, so its guest only uses what exists. A GPU that serves vGPUs is
    in use by virtual machines that NVML's list of processes does not show.

    Args:
        gpu: the GPU.
        mode: kind of devices that the node offers.
    """
    if gpu.virtualization in {Virtualization.HOST_VGPU, Virtualization.HOST_VSGA}:
        return None
    is_guest = gpu.virtualization is Virtualization.VGPU
    return Mode.STATIC if is_guest and mode is Mode.DYNAMIC else mode


def list_offers(
    card: GpuCard, mode: Mode, switching: MigSwitching, vfio: VfioFacts | None = None
) -> list[GpuOffer]:
    """Return the devices of one GPU, smallest first and the whole GPU last.

    Args:
        card: the GPU.
        mode: kind of devices that the node offers.
        switching: whether `prepare` may switch MIG on and off.
        vfio: the PCI function, if the GPU is also offered to virtual machines.
    """
    limited = limit_mode(card.gpu, mode)
    if limited is None:
        return []
    mode = limited
    whole = list(_list_whole_gpu(card, mode, switching))
    machines = [
        GpuOffer(f"{each.name}-vfio", card, GpuDeviceKind.VFIO, vfio=vfio) for each in whole if vfio is not None
    ]
    return [*_list_mig_devices(card, mode, switching), *whole, *machines]


def find_offer(card: GpuCard, mode: Mode, name: str) -> GpuOffer | None:
    """Return the device with this name, even if the GPU does not offer it in its present layout.

    Args:
        card: the GPU.
        mode: kind of devices that the node offers.
        name: name of the device.

    Returns:
        The device, or None if the GPU has no device with this name.
    """
    whole = GpuOffer(make_gpu_name(card.gpu), card, GpuDeviceKind.GPU)
    offer = next((offer for offer in (*_list_placements(card), whole) if offer.name == name), None)
    if offer is not None and offer.kind is GpuDeviceKind.DYNAMIC_MIG and mode is Mode.STATIC:
        return replace(offer, kind=GpuDeviceKind.STATIC_MIG)
    return offer


def _list_whole_gpu(card: GpuCard, mode: Mode, switching: MigSwitching) -> Iterator[GpuOffer]:
    """Yield the whole GPU if MIG is off or may be switched off.

    No program can use the GPU as a whole while MIG is on.
    """
    if not card.mig_enabled or (mode is not Mode.STATIC and can_switch_mig(card, switching)):
        yield GpuOffer(make_gpu_name(card.gpu), card, GpuDeviceKind.GPU)


def _list_mig_devices(card: GpuCard, mode: Mode, switching: MigSwitching) -> Iterator[GpuOffer]:
    if mode is Mode.STATIC and card.mig_enabled:
        yield from sorted(_list_existing(card), key=_sort_key)
    elif mode is Mode.DYNAMIC and (card.mig_enabled or can_switch_mig(card, switching)):
        yield from sorted(_list_placements(card), key=_sort_key)


def _list_existing(card: GpuCard) -> Iterator[GpuOffer]:
    ambiguous_ids = _list_ambiguous_ids(card)
    for instance in card.instances:
        profile, placement = card.profile(instance.gpu_instance.profile_id), instance.gpu_instance.placement
        if profile is not None and profile.id not in ambiguous_ids and instance.full_mig_device is not None:
            yield GpuOffer(
                _make_mig_name(card, profile, placement),
                card,
                GpuDeviceKind.STATIC_MIG,
                profile,
                placement,
                instance.full_mig_device,
            )


def _list_placements(card: GpuCard) -> Iterator[GpuOffer]:
    ambiguous_ids = _list_ambiguous_ids(card)
    for profile in card.profiles:
        for placement in profile.placements if profile.id not in ambiguous_ids else ():
            yield GpuOffer(
                _make_mig_name(card, profile, placement), card, GpuDeviceKind.DYNAMIC_MIG, profile, placement
            )


def _list_ambiguous_ids(card: GpuCard) -> set[int]:
    return {number for numbers in find_ambiguous_profiles(card).values() for number in numbers}


def _sort_key(offer: GpuOffer) -> tuple[int, int, int, int]:
    if offer.profile is None or offer.placement is None:
        return (0, 0, 0, 0)
    return (offer.placement.size, offer.profile.slices, -offer.profile.max_instances, offer.placement.start)


def find_ambiguous_profiles(card: GpuCard) -> Mapping[str, Sequence[int]]:
    """Return the IDs of profiles whose devices would have equal names, by the label in these names.

    None of these profiles is offered, because a claim for one profile could get the other profile. Normally,
    NVML gives the profiles of a GPU distinct names. This function finds profiles for which NVML does not do so.

    Args:
        card: the GPU.
    """
    labels = Counter(_make_label(profile) for profile in card.profiles)
    return {
        label: sorted(profile.id for profile in card.profiles if _make_label(profile) == label)
        for label, count in labels.items()
        if count > 1
    }


def _make_mig_name(card: GpuCard, profile: Profile, placement: Placement) -> str:
    return f"{make_gpu_name(card.gpu)}-mig-{_make_label(profile)}-{placement.start}"


def _make_label(profile: Profile) -> str:
    """Return the part of a device name that identifies the profile.

    `1g.5gb+me` becomes `1g-5gb-me`, and `1g.24gb-me` with ID 67 becomes `1g-24gb-me-67`. A Kubernetes name
    cannot contain a dot or a plus, so both become a minus. If the profile's own name contains a minus or has
    another form, the label also contains the ID, so that similar names stay distinct. The label depends only on
    the profile: devices in use keep their names when a new driver adds profiles.
    """
    if len(profile.name) <= _MAX_LABEL and _DISTINCT_NAME.fullmatch(profile.name):
        return profile.name.replace(".", "-").replace("+", "-")
    label = re.sub("[^a-z0-9]+", "-", profile.name.lower())[:_MAX_LABEL].strip("-")
    return f"{label}-{profile.id}".strip("-")
