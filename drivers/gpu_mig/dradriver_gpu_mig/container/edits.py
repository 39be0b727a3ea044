"""Composes the edits of a container."""

import dradriver as dra
from dradriver_gpu_mig.card import Gpu, MigDevice, System
from dradriver_gpu_mig.container.base_spec import toolkit_edits
from dradriver_gpu_mig.container.device_nodes import control_nodes, gpu_nodes, mig_nodes
from dradriver_gpu_mig.container.files import driver_libraries, library_links, mount, other_files
from dradriver_gpu_mig.container.hooks import library_hooks
from dradriver_gpu_mig.host.paths import HostPaths

__all__ = ["GpuContainers"]


class GpuContainers:
    """Container edits for real cards. All methods block for milliseconds and read the node again on each call.

    Args:
        host: paths of the node's files.
    """

    def __init__(self, host: HostPaths) -> None:
        self._host = host

    def common(self, system: System) -> dra.ContainerEdits:
        """Return the edits for every container with a device: control nodes and the driver's files.

        If the container toolkit has a CDI spec for this driver version, its edits are used. Otherwise the files
        are searched for on the node. Without the toolkit's hook, nothing creates the links under which
        libraries are loaded, so these names are mounted too.

        Args:
            system: the installed driver.

        Raises:
            DriverNotLoadedError: the kernel module is not loaded.
        """
        # The toolkit's runtime adds devices to a container that requests them by this variable.
        void = dra.ContainerEdits(env={"NVIDIA_VISIBLE_DEVICES": "void"})
        known = toolkit_edits(self._host.cdi, system.driver_version)
        if known is not None:
            return known if void.env[0] in known.env else known | void
        return void | dra.ContainerEdits(device_nodes=control_nodes(self._host)) | self._files(system)

    def gpu(self, gpu: Gpu) -> dra.ContainerEdits:
        """Return the edits for a whole GPU, without those of `common`.

        Raises:
            DriverNotLoadedError: the kernel module is not loaded.
            NotSupportedError: the driver does not report the GPU's minor number.
        """
        return dra.ContainerEdits(device_nodes=gpu_nodes(self._host, gpu))

    def mig(self, gpu: Gpu, device: MigDevice) -> dra.ContainerEdits:
        """Return the edits for a MIG device, without those of `common`.

        Args:
            gpu: the GPU that contains the device.
            device: the MIG device.

        Raises:
            DriverNotLoadedError: the kernel module is not loaded.
            InstanceNotFoundError: the device no longer exists.
            NotSupportedError: the driver does not report the GPU's minor number.
        """
        return dra.ContainerEdits(device_nodes=mig_nodes(self._host, gpu, device))

    def _files(self, system: System) -> dra.ContainerEdits:
        host, version = self._host, system.driver_version
        libraries = driver_libraries(host, version)
        mounts = [*(mount(host, library) for library in libraries), *other_files(host, version)]
        if host.hook is not None:
            return dra.ContainerEdits(mounts=mounts, hooks=library_hooks(host, host.hook, libraries))
        mounts += (mount(host, file, container_path=link) for link, file in library_links(host, libraries))
        return dra.ContainerEdits(mounts=mounts)
