"""Composes the edits of a container."""

import dradriver as dra
from dradriver_gpu_mig.card import Gpu, MigDevice, System
from dradriver_gpu_mig.container.base_spec import read_toolkit_edits
from dradriver_gpu_mig.container.device_nodes import make_control_nodes, make_gpu_nodes, make_mig_nodes
from dradriver_gpu_mig.container.files import (
    find_driver_libraries,
    find_library_links,
    make_library_hooks,
    make_mount,
    make_other_mounts,
)
from dradriver_gpu_mig.containers import Containers
from dradriver_gpu_mig.host.paths import HostPaths

__all__ = ["GpuContainers"]


class GpuContainers(Containers):
    """Container edits for real cards.

    All methods block for milliseconds and read the node's files again on each call.

    Args:
        host: paths of the node's files.
    """

    def __init__(self, host: HostPaths) -> None:
        self._host = host

    def common(self, system: System) -> dra.ContainerEdits:
        """Return the edits for every container with a device: control nodes and the driver's files.

        If the container toolkit has a CDI spec for this driver version, the edits of that spec are used.
        Otherwise, this method searches for the files on the node. If the toolkit's hook is not installed,
        nothing in the container creates the links by which programs load libraries. In this case, the libraries
        are also mounted under the names of the links.

        Args:
            system: the installed driver.

        Raises:
            DriverNotLoadedError: the kernel module is not loaded.
        """
        # By this variable, a container can request devices from the toolkit's runtime. `void` requests no
        # device.
        no_devices = dra.ContainerEdits(env={"NVIDIA_VISIBLE_DEVICES": "void"})
        spec_edits = read_toolkit_edits(self._host.cdi, system.driver_version)
        if spec_edits is not None:
            return spec_edits if no_devices.env[0] in spec_edits.env else spec_edits | no_devices
        return (
            no_devices
            | dra.ContainerEdits(device_nodes=make_control_nodes(self._host))
            | self._make_file_edits(system)
        )

    def gpu(self, gpu: Gpu) -> dra.ContainerEdits:
        """Return the edits for a whole GPU, without the edits of `common`.

        Args:
            gpu: the GPU.

        Raises:
            DriverNotLoadedError: the kernel module is not loaded.
            NotSupportedError: the driver does not report the GPU's minor number.
        """
        return dra.ContainerEdits(device_nodes=make_gpu_nodes(self._host, gpu))

    def mig(self, gpu: Gpu, device: MigDevice) -> dra.ContainerEdits:
        """Return the edits for a MIG device, without the edits of `common`.

        Args:
            gpu: the GPU that contains the device.
            device: the MIG device.

        Raises:
            DriverNotLoadedError: the kernel module is not loaded.
            InstanceNotFoundError: the device no longer exists.
            NotSupportedError: the driver does not report the GPU's minor number.
        """
        return dra.ContainerEdits(device_nodes=make_mig_nodes(self._host, gpu, device))

    def _make_file_edits(self, system: System) -> dra.ContainerEdits:
        host, version = self._host, system.driver_version
        libraries = find_driver_libraries(host, version)
        mounts = [*(make_mount(host, library) for library in libraries), *make_other_mounts(host, version)]
        if host.hook is not None:
            return dra.ContainerEdits(mounts=mounts, hooks=make_library_hooks(host, host.hook, libraries))
        mounts += (
            make_mount(host, file, container_path=link) for link, file in find_library_links(host, libraries)
        )
        return dra.ContainerEdits(mounts=mounts)
