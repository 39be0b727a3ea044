"""One consistent view of all cards: their properties and their instances.

An error gives no information about a card. The view keeps the error (`Survey.refusals`), and the card counts as
unchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dradriver_gpu_mig.card import (
    CardError,
    ComputeInstance,
    DriverNotLoadedError,
    Gpu,
    GpuInstance,
    Hardware,
    InstanceNotFoundError,
    MigDevice,
    Placement,
    Profile,
    System,
    VersionMismatchError,
)

__all__ = ["Card", "Instance", "Survey", "look", "look_at"]


@dataclass(frozen=True, slots=True)
class Instance:
    """A GPU instance with its compute instances and MIG devices.

    Without a compute instance it is incomplete.
    """

    gpu_instance: GpuInstance
    compute_instances: tuple[ComputeInstance, ...] = ()
    mig_devices: tuple[MigDevice, ...] = ()

    @property
    def whole(self) -> MigDevice | None:
        """The MIG device that uses all of the GPU instance; None if it is incomplete or divided further."""
        return self.mig_devices[0] if len(self.mig_devices) == len(self.compute_instances) == 1 else None


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU as it is now.

    Attributes:
        gpu: properties of the GPU.
        profiles: profiles that it supports.
        instances: GPU instances that exist.
        needs_reset: whether it has to be reset; None if it cannot report that.
    """

    gpu: Gpu
    profiles: tuple[Profile, ...] = ()
    instances: tuple[Instance, ...] = ()
    needs_reset: bool | None = None

    @property
    def divided(self) -> bool:
        """Whether MIG is on."""
        return self.gpu.mig is not None and self.gpu.mig.current

    def profile(self, number: int) -> Profile | None:
        """Return the profile with this ID, or None."""
        return next((profile for profile in self.profiles if profile.id == number), None)

    def at(self, profile: int, placement: Placement) -> Instance | None:
        """Return the instance with this profile at this place, or None."""
        wanted = (profile, placement)
        return next(
            (i for i in self.instances if (i.gpu_instance.profile_id, i.gpu_instance.placement) == wanted), None
        )


@dataclass(frozen=True, slots=True)
class Survey:
    """All GPUs that answer, by UUID.

    Attributes:
        system: the installed driver.
        cards: the GPUs that answer.
        refusals: why each other known or listed GPU could not be read.
    """

    system: System
    cards: Mapping[str, Card]
    refusals: Mapping[str, CardError] = field(default_factory=dict)


_NOTHING_KNOWN: Final[Mapping[str, Card]] = {}


def look(hardware: Hardware, known: Mapping[str, Card] = _NOTHING_KNOWN) -> Survey:
    """Read all GPUs. Blocking.

    Args:
        hardware: the cards.
        known: the GPUs of earlier looks, by UUID. They are read even if NVML does not list them.

    Raises:
        CardError: the driver does not answer.
    """
    system = hardware.system()
    listed = {gpu.uuid: gpu for gpu in hardware.gpus()}
    cards: dict[str, Card] = {}
    refusals: dict[str, CardError] = {}
    for uuid in dict.fromkeys([*listed, *known]):
        try:
            gpu = listed.get(uuid) or hardware.gpu(uuid)
            cards[uuid] = look_at(hardware, gpu, known.get(uuid))
        except (DriverNotLoadedError, VersionMismatchError):
            raise
        except CardError as error:  # the other GPUs are read nevertheless
            refusals[uuid] = error
    return Survey(system, cards, refusals)


def look_at(hardware: Hardware, gpu: Gpu, before: Card | None = None) -> Card:
    """Read one GPU. Blocking.

    Args:
        hardware: the cards.
        gpu: the GPU.
        before: its state at the last look.

    Raises:
        CardError: the GPU does not answer, or its answers contradict each other. Then an instance was created
            or destroyed during the look, or a call failed without an error.
    """
    devices = hardware.mig_devices(gpu.uuid)
    instances = []
    for gpu_instance in hardware.gpu_instances(gpu.uuid):
        try:
            compute = hardware.compute_instances(gpu.uuid, gpu_instance.id)
        except InstanceNotFoundError as error:
            raise _contradiction(gpu, gpu_instance) from error
        inside = tuple(device for device in devices if device.gpu_instance == gpu_instance.id)
        if {each.id for each in compute} != {each.compute_instance for each in inside}:
            raise _contradiction(gpu, gpu_instance)
        instances.append(Instance(gpu_instance, compute, inside))
    needs_reset = hardware.needs_reset(gpu.uuid)
    if before is not None:
        gpu = _completed(gpu, before.gpu)
        needs_reset = before.needs_reset if needs_reset is None else needs_reset
    return Card(gpu, hardware.profiles(gpu.uuid), tuple(instances), needs_reset)


def _completed(gpu: Gpu, before: Gpu) -> Gpu:
    """Return a GPU with the last known values where it reports none now: a GPU does not lose a property."""
    return replace(
        gpu,
        minor=before.minor if gpu.minor is None else gpu.minor,
        brand=gpu.brand or before.brand,
        architecture=gpu.architecture or before.architecture,
        memory=gpu.memory or before.memory,
        mig=before.mig if gpu.mig is None else gpu.mig,
        pcie_root=gpu.pcie_root or before.pcie_root,
        numa_node=before.numa_node if gpu.numa_node is None else gpu.numa_node,
    )


def _contradiction(gpu: Gpu, instance: GpuInstance) -> CardError:
    return CardError(
        f"{gpu.uuid} is inconsistent about its GPU instance {instance.id}: it changes, or a call failed"
    )
