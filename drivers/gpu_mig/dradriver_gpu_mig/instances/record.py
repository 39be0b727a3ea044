"""Record of a device that a claim has."""

import enum

import msgspec

from dradriver_gpu_mig.card import ComputeMode, Placement

__all__ = ["Place", "Record", "State"]


class State(enum.Enum):
    """Progress of a recorded device."""

    CREATING = "creating"
    READY = "ready"
    DESTROYING = "destroying"


class Place(msgspec.Struct, frozen=True):
    """Profile and placement of an instance.

    With the GPU it identifies the instance, because no two share a place.

    Attributes:
        profile: ID of the profile.
        placement: the memory slices.
    """

    profile: int
    placement: Placement


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One device that a claim has, and the changes to revert when the claim releases it.

    Attributes:
        device: name of the device.
        claim: UID of the claim.
        gpu: UUID of the GPU.
        place: place of a MIG device that is created for the claim; None: there is nothing to destroy.
        state: progress.
        boot: ID of the boot in which it is valid. Instances and settings of a GPU do not outlive a boot.
        compute_mode: the mode before the claim; None: the claim does not set it.
        time_slice: whether the claim sets the time slice.
    """

    device: str
    claim: str
    gpu: str
    place: Place | None = None
    state: State = State.CREATING
    boot: str = ""
    compute_mode: ComputeMode | None = None
    time_slice: bool = False
