"""Edits of a container, put together."""

import dradriver as dra
from dradriver_gpu_mig.card import Gpu, MigDevice, System
from dradriver_gpu_mig.container.base_spec import toolkit_edits
from dradriver_gpu_mig.container.device_nodes import control_nodes, gpu_nodes, mig_nodes
from dradriver_gpu_mig.container.files import driver_libraries, library_links, mount, other_files
from dradriver_gpu_mig.container.hooks import library_hooks
from dradriver_gpu_mig.host.paths import HostPaths

__all__ = ["GpuContainers"]


class GpuContainers:
    """What containers get. All of it blocks, for milliseconds; it is asked anew for every container.

    Args:
        host: where this node's files are.
    """

    def __init__(self, host: HostPaths) -> None:
        self._host = host

    def common(self, system: System) -> dra.ContainerEdits:
        """What every container gets that gets any device: control nodes, and the driver's files.

        Where the container toolkit is installed and knows this driver, it is what its spec has; else it is
        searched for here. Without the toolkit's hook the names under which libraries are loaded are mounted
        too, because nobody makes the links.

        Args:
            system: the driver that is installed.

        Raises:
            DriverNotLoadedError: the kernel module is not loaded.
        """
        # The toolkit's runtime would add devices of its own to a container that asks for some by this variable.
        void = dra.ContainerEdits(env={"NVIDIA_VISIBLE_DEVICES": "void"})
        known = toolkit_edits(self._host.cdi, system.driver_version)
        if known is not None:
            return known if void.env[0] in known.env else known | void
        return void | dra.ContainerEdits(device_nodes=control_nodes(self._host)) | self._files(system)

    def gpu(self, gpu: Gpu) -> dra.ContainerEdits:
        """What a container gets for a whole GPU, beside `common`.

        Raises:
            DriverNotLoadedError: the kernel module is not loaded.
            NotSupportedError: the driver doesn't tell which node it is.
        """
        return dra.ContainerEdits(device_nodes=gpu_nodes(self._host, gpu))

    def mig(self, gpu: Gpu, device: MigDevice) -> dra.ContainerEdits:
        """What a container gets for a MIG device, beside `common`.

        Args:
            gpu: the GPU that it is a part of.
            device: the MIG device.

        Raises:
            DriverNotLoadedError: the kernel module is not loaded.
            InstanceNotFoundError: the device is gone.
            NotSupportedError: the driver doesn't tell which node the GPU's is.
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
