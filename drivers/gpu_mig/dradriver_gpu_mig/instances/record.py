"""Record of a device that a claim has."""

import enum
from typing import Final

import msgspec

import dradriver as dra
from dradriver_gpu_mig.card import ComputeMode, Gpu, Placement, Profile, TimeSlice

__all__ = [
    "RECORD_VERSION",
    "DeviceRecord",
    "HeldRecord",
    "Holder",
    "PassedFunction",
    "PassedGpu",
    "ProfilePlacement",
    "RecordState",
]

RECORD_VERSION: Final = 3
"""Version of the records that this version of the driver writes.

Version 1 had no field `version` and no MIG UUID. Versions 1 and 2 had one `claim` instead of `holders`. A
record of a later version, or with a field that this version does not know, is held: only the version that wrote
it knows what must be reverted.
"""


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


class PassedFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A PCI function that is passed to a virtual machine.

    Attributes:
        address: PCI address.
        driver: name of the driver that it gets back; None: it had no driver.
    """

    address: str
    driver: str | None


class PassedGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that is passed to a virtual machine. NVML does not know it meanwhile, so its properties are kept.

    Attributes:
        gpu: properties of the GPU.
        profiles: profiles of the GPU, from which its counters are computed.
        functions: all functions of the card, in the order in which they are bound.
    """

    gpu: Gpu
    profiles: tuple[Profile, ...]
    functions: tuple[PassedFunction, ...]


class Holder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claim that has a device.

    Attributes:
        claim: UID of the claim.
        shared: whether other claims may have the device at the same time.
        time_slice: the time slice that the claim sets; None: it sets none, or an unknown one.
        has_unknown_time_slice: whether an earlier version of the driver has set the time slice for the claim.
    """

    claim: str
    shared: bool = False
    time_slice: TimeSlice | None = None
    has_unknown_time_slice: bool = False

    @property
    def sets_time_slice(self) -> bool:
        """Whether the time slice must be reset when the claim ends."""
        return self.time_slice is not None or self.has_unknown_time_slice


class HeldRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record that a later version of the driver wrote. It is neither changed nor deleted.

    Attributes:
        device: name of the device.
        reason: what this version does not know.
    """

    device: str
    reason: str


class DeviceRecord(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"instance": "place", "mig_uuid": "uuid"},
):
    """One device that claims have, and the changes to revert when the last of them releases it.

    Attributes:
        device: name of the device.
        holders: the claims that have the device; more than one only if the device is offered in shares.
        gpu: UUID of the GPU.
        instance: the GPU instance that is created for the claims; None: there is no instance to destroy.
        state: progress.
        boot: ID of the boot in which the record is valid. Instances and settings of a GPU do not survive a
            reboot.
        compute_mode: the GPU's compute mode before a claim set another one; None: no claim sets it.
        mig_uuid: UUID of the MIG device, as it was created; "" until it is complete. If another MIG device is
            at the placement, it belongs to another program.
        passed: the GPU, if the claim passes it to a virtual machine; None: it does not.
        version: version of the record; 1 for records that do not have the field.
    """

    device: str
    holders: tuple[Holder, ...]
    gpu: str
    instance: ProfilePlacement | None = None
    state: RecordState = RecordState.CREATING
    boot: str = ""
    compute_mode: ComputeMode | None = None
    mig_uuid: str = ""
    passed: PassedGpu | None = None
    version: int = 1

    @property
    def claims(self) -> list[str]:
        """UIDs of the claims that have the device."""
        return [holder.claim for holder in self.holders]

    def others(self, claim: str) -> tuple[Holder, ...]:
        """Return the holders except one claim.

        Args:
            claim: UID of the claim.
        """
        return tuple(holder for holder in self.holders if holder.claim != claim)

    def check_holder(self, holder: Holder) -> None:
        """Check that a claim may have the device besides its present holders.

        Args:
            holder: the claim.

        Raises:
            DraError: one of both has the device for itself.
        """
        for other in self.others(holder.claim):
            if not (holder.shared and other.shared):
                raise dra.DraError(f"device {self.device} is in use by the claim with UID {other.claim}")
