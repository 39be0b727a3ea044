"""One consistent view of all cards: their properties and their instances.

If a card cannot be read, its present state is unknown. The snapshot then contains the error
(`NodeSnapshot.errors`), and the card counts as unchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dradriver_gpu_mig.card import (
    Gpu,
    GpuError,
    GpuHardware,
    GpuInstance,
    InstanceNotFoundError,
    MigDevice,
    Placement,
    Profile,
    RecoveryAction,
    System,
)

__all__ = ["GpuCard", "MigInstance", "NodeSnapshot", "read_device", "read_gpu"]


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A GPU instance with its MIG devices, one for each compute instance.

    A GPU instance without a MIG device is incomplete.
    """

    gpu_instance: GpuInstance
    mig_devices: tuple[MigDevice, ...] = ()

    @property
    def full_mig_device(self) -> MigDevice | None:
        """The MIG device that uses all of the GPU instance; None if the instance is incomplete or divided."""
        return self.mig_devices[0] if len(self.mig_devices) == 1 else None


@dataclass(frozen=True, slots=True)
class GpuCard:
    """The present state of one GPU.

    Attributes:
        gpu: properties of the GPU.
        profiles: profiles that the GPU supports.
        instances: GPU instances that exist.
        recovery_action: what must be done before the GPU works correctly; None if the driver does not report
            it.
    """

    gpu: Gpu
    profiles: tuple[Profile, ...] = ()
    instances: tuple[MigInstance, ...] = ()
    recovery_action: RecoveryAction | None = None

    @property
    def mig_enabled(self) -> bool:
        """Whether MIG is on."""
        return self.gpu.mig is not None and self.gpu.mig.current

    def profile(self, number: int) -> Profile | None:
        """Return the profile with this ID, or None."""
        return next((profile for profile in self.profiles if profile.id == number), None)

    def find_instance_at(self, profile: int, placement: Placement) -> MigInstance | None:
        """Return the instance with this profile and placement, or None."""
        instances = ((each, each.gpu_instance) for each in self.instances)
        return next(
            (i for i, gpu in instances if (gpu.profile_id, gpu.placement) == (profile, placement)), None
        )


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """All GPUs that answer, by UUID.

    Attributes:
        system: the installed driver.
        cards: the GPUs that answer.
        errors: for each other GPU that is known or listed, why it could not be read.
    """

    system: System
    cards: Mapping[str, GpuCard]
    errors: Mapping[str, GpuError] = field(default_factory=dict)


def read_gpu(hardware: GpuHardware, gpu: Gpu, previous: GpuCard | None = None) -> GpuCard:
    """Read one GPU. Blocking.

    Args:
        hardware: the cards.
        gpu: the GPU.
        previous: the GPU's state at the last read.

    Raises:
        GpuError: the GPU does not answer, or an instance was destroyed during the read.
    """
    instances = tuple(_read_instance(hardware, gpu, each) for each in hardware.gpu_instances(gpu.uuid))
    action = hardware.recovery_action(gpu.uuid)
    if previous is not None:
        gpu = _fill_unknown(gpu, previous.gpu)
        action = previous.recovery_action if action is None else action
    return GpuCard(gpu, hardware.profiles(gpu.uuid), instances, action)


def read_device(
    hardware: GpuHardware, card: GpuCard, profile: Profile | None, placement: Placement | None
) -> GpuCard:
    """Read the GPU of one device, and none of its other devices. Blocking.

    Reading a whole GPU takes several calls of NVML for each instance, and each call can take milliseconds.

    Args:
        hardware: the cards.
        card: the GPU's state at the last read.
        profile: profile of the MIG device; None: the device is the whole GPU.
        placement: placement of the MIG device, or None.

    Returns:
        The present state of the GPU. Of its instances it contains only the one of the device, if it exists.

    Raises:
        GpuError: the GPU does not answer, or the instance was destroyed during the read.
    """
    gpu = _fill_unknown(hardware.gpu(card.gpu.uuid), card.gpu)
    found = (
        hardware.find_gpu_instance(gpu.uuid, profile.id, placement)
        if profile is not None and placement is not None and gpu.mig is not None and gpu.mig.current
        else None
    )
    instances = () if found is None else (_read_instance(hardware, gpu, found),)
    return replace(card, gpu=gpu, instances=instances)


def _read_instance(hardware: GpuHardware, gpu: Gpu, instance: GpuInstance) -> MigInstance:
    try:
        return MigInstance(instance, hardware.mig_devices(gpu.uuid, instance))
    except InstanceNotFoundError as error:
        raise GpuError(f"{gpu.uuid}: GPU instance {instance.id} was destroyed while it was read") from error


def _fill_unknown(gpu: Gpu, previous: Gpu) -> Gpu:
    """Return the GPU with its last known values for properties that it does not report now."""
    return replace(
        gpu,
        minor=previous.minor if gpu.minor is None else gpu.minor,
        brand=gpu.brand or previous.brand,
        architecture=gpu.architecture or previous.architecture,
        memory=gpu.memory or previous.memory,
        mig=previous.mig if gpu.mig is None else gpu.mig,
        pcie_root=gpu.pcie_root or previous.pcie_root,
        numa_node=previous.numa_node if gpu.numa_node is None else gpu.numa_node,
        addressing_mode=gpu.addressing_mode or previous.addressing_mode,
        fabric=gpu.fabric or previous.fabric,
    )
