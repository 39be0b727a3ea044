"""One look at all cards: what they are and what lives on them, taken in one go."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from drivers.gpu_mig.card import (
    CardError,
    ComputeInstance,
    DriverNotLoadedError,
    Gpu,
    GpuInstance,
    GpuLostError,
    Hardware,
    InstanceNotFoundError,
    MigDevice,
    Placement,
    Profile,
    ResetRequiredError,
    System,
    VersionMismatchError,
)

__all__ = ["Card", "Instance", "Survey", "look", "look_at"]


@dataclass(frozen=True, slots=True)
class Instance:
    """A GPU instance and what lives in it; half-made when that is nothing."""

    gpu_instance: GpuInstance
    compute_instances: tuple[ComputeInstance, ...] = ()
    mig_devices: tuple[MigDevice, ...] = ()

    @property
    def whole(self) -> MigDevice | None:
        """The MIG device that has all of the GPU instance; None if it is half-made, or divided further."""
        return self.mig_devices[0] if len(self.mig_devices) == len(self.compute_instances) == 1 else None


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU as it is now.

    Attributes:
        gpu: what it is.
        profiles: what it can be divided into.
        instances: what it is divided into.
        needs_reset: whether it has to be reset; None where it can't tell.
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
        """The profile of this ID."""
        return next((profile for profile in self.profiles if profile.id == number), None)

    def at(self, profile: int, placement: Placement) -> Instance | None:
        """The instance of this profile at this place."""
        wanted = (profile, placement)
        return next(
            (i for i in self.instances if (i.gpu_instance.profile_id, i.gpu_instance.placement) == wanted), None
        )


@dataclass(frozen=True, slots=True)
class Survey:
    """All GPUs that answer, by UUID.

    Attributes:
        system: the driver.
        cards: what they are.
        refusals: of those that are there, and that could not be looked at this time.
    """

    system: System
    cards: Mapping[str, Card]
    refusals: Mapping[str, CardError] = field(default_factory=dict)


def look(hardware: Hardware) -> Survey:
    """Looks at everything. A GPU that is lost, or does nothing before it is reset, is left out. Blocking.

    Raises:
        CardError: the driver does not answer.
    """
    system = hardware.system()
    cards: dict[str, Card] = {}
    refusals: dict[str, CardError] = {}
    for gpu in hardware.gpus():
        try:
            cards[gpu.uuid] = look_at(hardware, gpu)
        except (GpuLostError, ResetRequiredError):
            continue
        except (DriverNotLoadedError, VersionMismatchError):
            raise
        except CardError as error:  # it keeps nobody from the others
            refusals[gpu.uuid] = error
    return Survey(system, cards, refusals)


def look_at(hardware: Hardware, gpu: Gpu) -> Card:
    """Looks at one GPU. Blocking."""
    devices = hardware.mig_devices(gpu.uuid)
    instances = []
    for gpu_instance in hardware.gpu_instances(gpu.uuid):
        try:
            compute = hardware.compute_instances(gpu.uuid, gpu_instance.id)
        except InstanceNotFoundError:
            continue  # destroyed by somebody else since it was listed
        inside = tuple(device for device in devices if device.gpu_instance == gpu_instance.id)
        instances.append(Instance(gpu_instance, compute, inside))
    return Card(gpu, hardware.profiles(gpu.uuid), tuple(instances), hardware.needs_reset(gpu.uuid))
