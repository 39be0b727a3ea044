"""The interface to hardware. Calls block; `Cards` runs them on a thread."""

from typing import Protocol

from dradriver_gpu_mig.card.values import (
    ComputeInstance,
    ComputeMode,
    Event,
    Gpu,
    GpuInstance,
    MigDevice,
    MigMode,
    Placement,
    Process,
    Profile,
    System,
    TimeSlice,
)

__all__ = ["Hardware"]


class Hardware(Protocol):
    """All GPUs of a node, each identified by its UUID. Every call may raise `CardError`.

    All calls come from one thread, except `wait_event`, which another thread calls at the same time.

    Changes are made in the hardware and outlive the process, even if it dies right after a call. An instance
    exists or is destroyed from the moment at which the call takes effect, even if its answer is lost. After a
    crash, the hardware is read first, beginning with `gpu_instances`: a GPU instance without a compute instance
    is not a MIG device.
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
        """Return the installed driver."""

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs that answer, by PCI address.

        A missing one may be lost, or may not answer this time.
        """

    def gpu(self, gpu: str) -> Gpu:
        """Return one GPU as it is now.

        Raises:
            GpuNotFoundError: there is no such GPU, or it no longer exists.
            GpuLostError: it fell off the bus.
            CardError: it does not answer this time.
        """

    def profiles(self, gpu: str) -> tuple[Profile, ...]:
        """Return the profiles of the GPU, smallest first; empty if it does not support MIG."""

    def gpu_instances(self, gpu: str) -> tuple[GpuInstance, ...]:
        """Return the existing GPU instances by ID, incomplete ones too; empty while MIG is off."""

    def compute_instances(self, gpu: str, gpu_instance: int) -> tuple[ComputeInstance, ...]:
        """Return the compute instances of a GPU instance, by ID.

        Raises:
            InstanceNotFoundError: there is no such GPU instance.
        """

    def mig_devices(self, gpu: str) -> tuple[MigDevice, ...]:
        """Return the existing MIG devices, by instance; empty while MIG is off."""

    def create_gpu_instance(self, gpu: str, profile_id: int, placement: Placement) -> GpuInstance:
        """Create a GPU instance at a place.

        Raises:
            InsufficientResourcesError: another instance has the place, the compute slices or the engines.
            InvalidArgumentError: the profile has no such place.
            NotSupportedError: MIG is off, or the profile is unknown.
        """

    def create_compute_instance(self, gpu: str, gpu_instance: int) -> MigDevice:
        """Create the compute instance that uses all of its GPU instance, and with it the MIG device.

        Raises:
            InstanceNotFoundError: there is no such GPU instance.
            InsufficientResourcesError: it has a compute instance already.
        """

    def destroy_compute_instance(self, gpu: str, gpu_instance: int, compute_instance: int) -> None:
        """Destroy a compute instance.

        Raises:
            InUseError: a process uses it.
            InstanceNotFoundError: it does not exist.
        """

    def destroy_gpu_instance(self, gpu: str, gpu_instance: int) -> None:
        """Destroy a GPU instance.

        Raises:
            InUseError: it contains a compute instance.
            InstanceNotFoundError: it does not exist.
        """

    def set_mig_mode(self, gpu: str, *, enabled: bool) -> MigMode:
        """Switch MIG.

        Switching it off destroys all instances. Some GPUs (Ampere) switch only at their next reset.

        Returns:
            The mode now, and the mode after the next reset.

        Raises:
            InUseError: a process uses the GPU.
            NotSupportedError: the GPU does not support MIG.
        """

    def compute_mode(self, gpu: str) -> ComputeMode:
        """Return which processes may use the GPU."""

    def set_compute_mode(self, gpu: str, mode: ComputeMode) -> None:
        """Set which processes may use the GPU. While MIG is on, the mode cannot be set.

        Raises:
            NotSupportedError: the GPU does not support the mode, or MIG is on.
        """

    def set_time_slice(self, gpu: str, time_slice: TimeSlice) -> None:
        """Set the time slice of processes on the GPU.

        Raises:
            NotSupportedError: the GPU does not support it, or the driver's program is missing.
        """

    def processes(self, gpu: str) -> tuple[Process, ...]:
        """Return the processes that use the GPU or its instances now, by PID."""

    def needs_reset(self, gpu: str) -> bool | None:
        """Return whether the GPU or its node has to be reset before the GPU works correctly; None: unknown."""

    def wait_event(self, timeout: float) -> Event | None:
        """Return the next event since `open`, or None after `timeout` seconds without one.

        Raises:
            NotSupportedError: no GPU of the node supports events.
        """
