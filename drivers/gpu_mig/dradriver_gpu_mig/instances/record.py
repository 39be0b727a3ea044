"""What is recorded of a device that a claim has."""

import enum

import msgspec

from dradriver_gpu_mig.card import ComputeMode, Placement

__all__ = ["Place", "Record", "State"]


class State(enum.Enum):
    """How far a recorded device is."""

    CREATING = "creating"
    READY = "ready"
    DESTROYING = "destroying"


class Place(msgspec.Struct, frozen=True):
    """Where an instance is to be: with the GPU it identifies it, because no two share a place.

    Attributes:
        profile: the profile's ID.
        placement: the memory slices.
    """

    profile: int
    placement: Placement


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One device that a claim has, and what has to be taken back when it is given up.

    Attributes:
        device: the device's name.
        claim: UID of the claim.
        gpu: UUID of the GPU.
        place: of a MIG device that is made for the claim; None: there is nothing to destroy.
        state: how far it is.
        boot: the boot that it belongs to: no instance and no setting of a GPU outlives one.
        compute_mode: what it was before the claim; None: the claim does not set it.
        time_slice: whether the claim sets it.
    """

    device: str
    claim: str
    gpu: str
    place: Place | None = None
    state: State = State.CREATING
    boot: str = ""
    compute_mode: ComputeMode | None = None
    time_slice: bool = False
