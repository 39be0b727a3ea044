"""The interface to hardware. Calls block; `GpuCards` runs them on a thread."""

from contextlib import suppress
from typing import Protocol

from dradriver_gpu_mig.card.errors import GpuError
from dradriver_gpu_mig.card.values import (
    ComputeMode,
    Event,
    Gpu,
    GpuInstance,
    MigDevice,
    MigMode,
    Placement,
    Process,
    Profile,
    RecoveryAction,
    System,
    TimeSlice,
)

__all__ = ["GpuHardware"]


class GpuHardware(Protocol):
    """All GPUs of a node, each identified by its UUID. Every call may raise `GpuError`.

    Calls may come from several threads, but calls for one GPU come one after the other. `wait_event` is called
    by one thread only.

    Changes are made in the hardware and outlive the process, even if the process dies right after a call. As
    soon as a call takes effect, the instance exists or is destroyed, even if the caller never receives the
    answer.

    After a crash, the caller must read the hardware first, beginning with the GPU instances, because a GPU
    instance without a compute instance has no MIG device.
    """

    def open(self) -> None:
        """Initialize the hardware. Call it once before all other calls, and again after `close`.

        Raises:
            LibraryNotFoundError: no driver is installed.
            DriverNotLoadedError: the kernel's driver is not loaded.
            VersionMismatchError: the library and the kernel's driver have different versions.
        """

    def close(self) -> None:
        """Shut down. A running `wait_event` returns None within its timeout."""

    def system(self) -> System:
        """Return the versions of the installed driver and of CUDA."""

    def count(self) -> int:
        """Return the number of GPUs that the driver lists."""

    def uuid_at(self, index: int) -> str:
        """Return the UUID of a listed GPU.

        Args:
            index: 0 to `count() - 1`. The index of a GPU can change when another GPU is added or removed.

        Raises:
            GpuLostError: the GPU fell off the bus.
            GpuError: the GPU does not answer this time, or the index does not exist any more.
        """

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs that answer, sorted by PCI address.

        A GPU that is missing in the result may be lost, or may not answer this time.
        """
        found: list[Gpu] = []
        for index in range(self.count()):
            with suppress(GpuError):
                found.append(self.gpu(self.uuid_at(index)))
        return tuple(sorted(found, key=lambda gpu: gpu.pci_address))

    def gpu(self, gpu: str) -> Gpu:
        """Return the present properties of one GPU.

        Args:
            gpu: UUID of the GPU.

        Raises:
            GpuNotFoundError: the GPU does not exist, or no longer exists.
            GpuLostError: the GPU fell off the bus.
            GpuError: the GPU does not answer this time.
        """

    def profiles(self, gpu: str) -> tuple[Profile, ...]:
        """Return the profiles of the GPU, smallest first; empty if the GPU does not support MIG.

        Args:
            gpu: UUID of the GPU.
        """

    def gpu_instances(self, gpu: str) -> tuple[GpuInstance, ...]:
        """Return all existing GPU instances, sorted by ID, even incomplete instances; empty while MIG is off.

        Args:
            gpu: UUID of the GPU.
        """

    def find_gpu_instance(self, gpu: str, profile_id: int, placement: Placement) -> GpuInstance | None:
        """Return the GPU instance with a profile and a placement, even an incomplete one, or None.

        Args:
            gpu: UUID of the GPU.
            profile_id: ID of the profile.
            placement: a placement of the profile.
        """

    def mig_devices(self, gpu: str, instance: GpuInstance) -> tuple[MigDevice, ...]:
        """Return the MIG devices of a GPU instance, sorted by ID; one for each compute instance.

        Args:
            gpu: UUID of the GPU.
            instance: the GPU instance.

        Raises:
            InstanceNotFoundError: the GPU instance does not exist.
        """

    def create_gpu_instance(self, gpu: str, profile_id: int, placement: Placement) -> GpuInstance:
        """Create a GPU instance at a placement.

        Args:
            gpu: UUID of the GPU.
            profile_id: ID of the profile.
            placement: a placement of the profile.

        Returns:
            The new instance.

        Raises:
            InsufficientResourcesError: another instance uses the memory slices, compute slices or engines.
            InvalidArgumentError: the profile has no such placement.
            NotSupportedError: MIG is off, or the profile is unknown.
        """

    def create_compute_instance(self, gpu: str, instance: GpuInstance) -> MigDevice:
        """Create a compute instance that uses the whole GPU instance. This creates the MIG device.

        Args:
            gpu: UUID of the GPU.
            instance: the GPU instance.

        Returns:
            The new MIG device.

        Raises:
            InstanceNotFoundError: the GPU instance does not exist.
            InsufficientResourcesError: the GPU instance already has a compute instance.
        """

    def destroy_compute_instance(self, gpu: str, gpu_instance: int, compute_instance: int) -> None:
        """Destroy a compute instance.

        Args:
            gpu: UUID of the GPU.
            gpu_instance: ID of the GPU instance.
            compute_instance: ID of the compute instance.

        Raises:
            InUseError: a process uses the compute instance.
            InstanceNotFoundError: the compute instance does not exist.
        """

    def destroy_gpu_instance(self, gpu: str, gpu_instance: int) -> None:
        """Destroy a GPU instance.

        Args:
            gpu: UUID of the GPU.
            gpu_instance: ID of the GPU instance.

        Raises:
            InUseError: the GPU instance contains a compute instance.
            InstanceNotFoundError: the GPU instance does not exist.
        """

    def set_mig_mode(self, gpu: str, *, enabled: bool) -> MigMode:
        """Switch MIG on or off.

        Switching MIG off destroys all instances. Some GPUs (Ampere) switch only at their next reset.

        Args:
            gpu: UUID of the GPU.
            enabled: whether MIG must be on.

        Returns:
            The mode now, and the mode after the next reset.

        Raises:
            InUseError: a process uses the GPU.
            NotSupportedError: the GPU does not support MIG.
        """

    def compute_mode(self, gpu: str) -> ComputeMode:
        """Return which processes may use the GPU.

        Args:
            gpu: UUID of the GPU.
        """

    def set_compute_mode(self, gpu: str, mode: ComputeMode) -> None:
        """Set which processes may use the GPU. While MIG is on, the mode cannot be set.

        Args:
            gpu: UUID of the GPU.
            mode: the new mode.

        Raises:
            NotSupportedError: the GPU does not support the mode, or MIG is on.
        """

    def set_time_slice(self, gpu: str, time_slice: TimeSlice) -> None:
        """Set the time slice of processes on the GPU.

        Args:
            gpu: UUID of the GPU.
            time_slice: the new time slice.

        Raises:
            NotSupportedError: the GPU does not support the time slice, or the driver's program `nvidia-smi` is
                missing.
        """

    def processes(self, gpu: str) -> tuple[Process, ...]:
        """Return the processes that use the GPU or its instances now, sorted by PID.

        Args:
            gpu: UUID of the GPU.
        """

    def recovery_action(self, gpu: str) -> RecoveryAction | None:
        """Return what must be done before the GPU works correctly; None: the driver does not report it.

        Args:
            gpu: UUID of the GPU.
        """

    def wait_event(self, timeout: float) -> Event | None:
        """Return the next event since the first wait, or None after `timeout` seconds without an event.

        Args:
            timeout: seconds to wait; 0: return at once.

        Raises:
            NotSupportedError: no GPU of the node supports events.
        """
