"""Composes the edits of a container."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.card import Gpu, MigDevice, System
from dradriver_gpu_mig.container.base_spec import read_toolkit_edits
from dradriver_gpu_mig.container.device_nodes import (
    find_drm_links,
    make_control_nodes,
    make_drm_nodes,
    make_gpu_node,
    make_mig_nodes,
    make_monitor_nodes,
)
from dradriver_gpu_mig.container.files import make_mount, make_other_mounts
from dradriver_gpu_mig.container.hooks import make_driver_hooks, make_link_hooks
from dradriver_gpu_mig.container.libraries import DriverLibraries, find_driver_libraries
from dradriver_gpu_mig.containers import Containers, OfferedEdits, has_graphics
from dradriver_gpu_mig.host.hook import HookProgram, find_ldconfig
from dradriver_gpu_mig.host.paths import HostPaths

__all__ = ["GpuContainers"]

_REQUIRED: Final = ("libcuda", "libnvidia-ml")
_CONSEQUENCE: Final = "programs find NVIDIA's libraries only in images that search the node's library folders"
_NO_HOOK: Final = f"nvidia-cdi-hook is not available on this node (setting host.hook): {_CONSEQUENCE}"
_NO_LDCONFIG: Final = f"ldconfig does not exist on this node: {_CONSEQUENCE}"


class GpuContainers(Containers):
    """Container edits for real cards.

    All methods block for milliseconds and read the node's files again on each call.

    Args:
        host: paths of the node's files.
        hook: `nvidia-cdi-hook`; None: the node has none.
    """

    def __init__(self, host: HostPaths, hook: HookProgram | None) -> None:
        self._host = host
        self._hook = hook

    def common(self, system: System) -> OfferedEdits:
        """Return the edits for every container with a device: control nodes and the driver's files.

        If the container toolkit has a CDI spec for this driver version, the edits of that spec are used.
        Otherwise, this method searches for the files on the node. Without a hook, nothing in the container
        creates the links by which programs load libraries. In this case, the libraries are also mounted under
        the names of the links.

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
            return OfferedEdits(spec_edits if no_devices.env[0] in spec_edits.env else spec_edits | no_devices)
        nodes = make_control_nodes(self._host)
        paths = {node.path for node in nodes}
        missing = (
            []
            if "/dev/nvidia-uvm" in paths
            else ["CUDA is not usable: the kernel module nvidia-uvm is not loaded"]
        )
        return (
            OfferedEdits(no_devices)
            | OfferedEdits(dra.ContainerEdits(device_nodes=nodes), tuple(missing))
            | self._make_file_edits(system)
        )

    def gpu(self, gpu: Gpu) -> OfferedEdits:
        """Return the edits for a whole GPU, without the edits of `common`.

        Args:
            gpu: the GPU.

        Raises:
            DriverNotLoadedError: the kernel module is not loaded.
            NotSupportedError: the driver does not report the GPU's minor number.
        """
        return self._make_graphics([make_gpu_node(self._host, gpu)], gpu)

    def mig(self, gpu: Gpu, device: MigDevice, profile: str) -> OfferedEdits:
        """Return the edits for a MIG device, without the edits of `common`.

        Args:
            gpu: the GPU that contains the device.
            device: the MIG device.
            profile: name of its profile. Only a profile with graphics gets the GPU's nodes in /dev/dri.

        Raises:
            DriverNotLoadedError: the kernel module is not loaded.
            InstanceNotFoundError: the device no longer exists.
            NotSupportedError: the driver does not report the GPU's minor number.
        """
        nodes = make_mig_nodes(self._host, gpu, device)
        if not has_graphics(profile):
            return OfferedEdits(dra.ContainerEdits(device_nodes=nodes))
        offered = self._make_graphics(nodes, gpu)
        if len(offered.edits.device_nodes) > len(nodes):
            return offered
        reason = (
            f"graphics are not usable on {gpu.pci_address}: the node has no device nodes for it in /dev/dri"
        )
        return offered | OfferedEdits(missing=(f"{reason}; load the kernel module nvidia-drm",))

    def monitor(self) -> OfferedEdits:
        """Return the device node for monitoring all MIG devices of the node; nothing if the driver has none."""
        return OfferedEdits(dra.ContainerEdits(device_nodes=make_monitor_nodes(self._host)))

    def _make_graphics(self, nodes: Sequence[dra.DeviceNode], gpu: Gpu) -> OfferedEdits:
        """Return device nodes, and the nodes and links of the GPU in /dev/dri, which many nodes lack."""
        graphics = make_drm_nodes(self._host, gpu)
        edits = dra.ContainerEdits(device_nodes=[*nodes, *graphics])
        links = find_drm_links(self._host, gpu, graphics)
        if self._hook is None or not links:
            return OfferedEdits(edits)
        return OfferedEdits(edits | dra.ContainerEdits(hooks=make_link_hooks(self._hook, links)))

    def _make_file_edits(self, system: System) -> OfferedEdits:
        host, version = self._host, system.driver_version
        libraries = find_driver_libraries(host, version)
        mounts = [make_mount(host, path) for path in libraries.all] + [*make_other_mounts(host, version)]
        absent = [f"{name}.so.{version}" for name in _REQUIRED if not libraries.contains(name)]
        missing = [f"{name} does not exist below {host.driver_root_on_host} on this node" for name in absent]
        edits = dra.ContainerEdits(mounts=mounts)
        if folders := libraries.cuda_folders:
            # By this variable, NVIDIA's tools in the container find the folders.
            edits |= dra.ContainerEdits(env={"NVIDIA_CTK_LIBCUDA_DIR": ":".join(folders)})
        return OfferedEdits(edits, tuple(missing)) | self._make_hooks(libraries, version)

    def _make_hooks(self, libraries: DriverLibraries, version: str) -> OfferedEdits:
        host = self._host
        if self._hook is None:
            links = [make_mount(host, file, container_path=link) for link, file in libraries.links_on_node()]
            return OfferedEdits(dra.ContainerEdits(mounts=links), (_NO_HOOK,))
        roots = ((host.root, Path("/")), (host.driver_root, host.driver_root_on_host))
        ldconfig = find_ldconfig(roots)
        hooks = make_driver_hooks(
            self._hook, version, libraries.links_in_container(), libraries.folders, ldconfig
        )
        return OfferedEdits(dra.ContainerEdits(hooks=hooks), () if ldconfig else (_NO_LDCONFIG,))
