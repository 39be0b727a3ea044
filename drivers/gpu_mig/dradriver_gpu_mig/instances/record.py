"""Record of a device that a claim has."""

import enum

import msgspec

from dradriver_gpu_mig.card import ComputeMode, Placement

__all__ = ["DeviceRecord", "ProfilePlacement", "RecordState"]


class RecordState(enum.Enum):
    """Progress of a recorded device."""

    CREATING = "creating"
    READY = "ready"
    DESTROYING = "destroying"


class ProfilePlacement(msgspec.Struct, frozen=True):
    """Profile and placement of a GPU instance.

    Together with the GPU, these values identify the instance, because placements of instances do not overlap.

    Attributes:
        profile: ID of the profile.
        placement: the memory slices.
    """

    profile: int
    placement: Placement


class DeviceRecord(msgspec.Struct, frozen=True, kw_only=True, rename={"instance": "place"}):
    """One device that a claim has, and the changes to revert when the claim releases it.

    Attributes:
        device: name of the device.
        claim: UID of the claim.
        gpu: UUID of the GPU.
        instance: the GPU instance that is created for the claim; None: the claim has no instance to destroy.
        state: progress.
        boot: ID of the boot in which the record is valid. Instances and settings of a GPU do not survive a
            reboot.
        compute_mode: the GPU's compute mode before the claim set another one; None: the claim does not set it.
        time_slice: whether the claim sets the time slice.
    """

    device: str
    claim: str
    gpu: str
    instance: ProfilePlacement | None = None
    state: RecordState = RecordState.CREATING
    boot: str = ""
    compute_mode: ComputeMode | None = None
    time_slice: bool = False
