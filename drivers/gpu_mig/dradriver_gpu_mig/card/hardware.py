"""The door to hardware. Calls block; `Cards` makes them where blocking is allowed."""

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
    """All GPUs of a node. GPUs are named by UUID. Every call may raise `CardError`.

    All calls come from one thread, but `wait_event`, which comes from another one at the same time.

    What is made or changed lives in the hardware and outlives the process, whenever that dies. An instance is
    there, or not, from the moment that the call which makes or destroys it takes effect, even if its answer is
    never seen; so after a crash the hardware is asked, by `gpu_instances` first: a GPU instance without a
    compute instance is no MIG device.
    """

    def open(self) -> None:
        """Begins. To be called once, before all else, and again after `close`.

        Raises:
            LibraryNotFoundError: no driver is installed.
            DriverNotLoadedError: the kernel's driver is not loaded.
            VersionMismatchError: the library is not the kernel driver's.
        """

    def close(self) -> None:
        """Ends; a `wait_event` that is under way returns None within its timeout."""

    def system(self) -> System:
        """The node's driver."""

    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that answer, by PCI address. One that is missing may be lost, or not answer this time."""

    def gpu(self, gpu: str) -> Gpu:
        """One GPU as it is now.

        Raises:
            GpuNotFoundError: there is no such GPU, or no longer.
            GpuLostError: it fell off the bus.
            CardError: it does not answer this time.
        """

    def profiles(self, gpu: str) -> tuple[Profile, ...]:
        """What the GPU offers, smallest first; empty on one that can't be divided."""

    def gpu_instances(self, gpu: str) -> tuple[GpuInstance, ...]:
        """The instances that are there, half-made ones too, by ID; empty while MIG is off."""

    def compute_instances(self, gpu: str, gpu_instance: int) -> tuple[ComputeInstance, ...]:
        """What lives in a GPU instance, by ID.

        Raises:
            InstanceNotFoundError: there is no such GPU instance.
        """

    def mig_devices(self, gpu: str) -> tuple[MigDevice, ...]:
        """The MIG devices that are there, by instance; empty while MIG is off."""

    def create_gpu_instance(self, gpu: str, profile_id: int, placement: Placement) -> GpuInstance:
        """Makes a GPU instance at a place.

        Raises:
            InsufficientResourcesError: something else has the place, the compute slices or the engines.
            InvalidArgumentError: the profile has no such place.
            NotSupportedError: MIG is off, or the profile is unknown.
        """

    def create_compute_instance(self, gpu: str, gpu_instance: int) -> MigDevice:
        """Makes the compute instance that has all of its GPU instance, and with it the MIG device.

        Raises:
            InstanceNotFoundError: there is no such GPU instance.
            InsufficientResourcesError: it has a compute instance already.
        """

    def destroy_compute_instance(self, gpu: str, gpu_instance: int, compute_instance: int) -> None:
        """Destroys a compute instance.

        Raises:
            InUseError: a process uses it.
            InstanceNotFoundError: it is not there.
        """

    def destroy_gpu_instance(self, gpu: str, gpu_instance: int) -> None:
        """Destroys a GPU instance.

        Raises:
            InUseError: a compute instance lives in it.
            InstanceNotFoundError: it is not there.
        """

    def set_mig_mode(self, gpu: str, *, enabled: bool) -> MigMode:
        """Switches MIG; instances are lost when it goes off. Some GPUs (Ampere) may wait for their next reset.

        Returns:
            The mode now, and the one that the next reset brings.

        Raises:
            InUseError: a process uses the GPU.
            NotSupportedError: the GPU can't be divided.
        """

    def compute_mode(self, gpu: str) -> ComputeMode:
        """Who may use the GPU."""

    def set_compute_mode(self, gpu: str, mode: ComputeMode) -> None:
        """Says who may use the GPU. A GPU that is divided takes DEFAULT alone.

        Raises:
            NotSupportedError: the GPU can't, or not while MIG is on.
        """

    def set_time_slice(self, gpu: str, time_slice: TimeSlice) -> None:
        """Says how long processes take turns on the GPU.

        Raises:
            NotSupportedError: the GPU can't, or the driver has no program to do it.
        """

    def processes(self, gpu: str) -> tuple[Process, ...]:
        """Who uses the GPU or its instances now, by PID."""

    def needs_reset(self, gpu: str) -> bool | None:
        """Whether the GPU, or its node, has to be reset before the GPU is right again; None: it can't tell."""

    def wait_event(self, timeout: float) -> Event | None:
        """The next event since `open`, or None after `timeout` seconds without one.

        Raises:
            NotSupportedError: no GPU of the node tells events.
        """
