"""Device nodes of GPUs and MIG devices, and the control nodes that all programs need."""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.card import Gpu, MigDevice, NotSupportedError
from dradriver_gpu_mig.container.device_numbers import Numbers, capability, gpu_major, node_owner, read_majors
from dradriver_gpu_mig.host.paths import HostPaths

__all__ = ["control_nodes", "gpu_nodes", "mig_nodes"]

_CONTROL: Final = 255
_MODESET: Final = 254
_UVM: Final[Mapping[str, int]] = {"nvidia-uvm": 0, "nvidia-uvm-tools": 1}


def control_nodes(host: HostPaths) -> list[dra.DeviceNode]:
    """Return the nodes that belong to no single GPU: nvidiactl, UVM and modeset. Blocking.

    Raises:
        DriverNotLoadedError: the kernel module is not loaded.
    """
    majors = read_majors(host.proc)
    nodes = [_node(host, "/dev/nvidiactl", _numbers(host, gpu_major(majors), _CONTROL))]
    if "nvidia-uvm" in majors:
        numbered = {name: _numbers(host, majors["nvidia-uvm"], minor) for name, minor in _UVM.items()}
        nodes += [_node(host, f"/dev/{name}", numbers) for name, numbers in numbered.items()]
    # Only graphics programs need nvidia-modeset, and most nodes do not have it.
    if _on_host(host.dev / "nvidia-modeset") is not None:
        nodes.append(_node(host, "/dev/nvidia-modeset", _numbers(host, gpu_major(majors), _MODESET)))
    return nodes


def gpu_nodes(host: HostPaths, gpu: Gpu) -> list[dra.DeviceNode]:
    """Return the device nodes of a whole GPU. Blocking.

    Raises:
        DriverNotLoadedError: the kernel module is not loaded.
        NotSupportedError: the driver does not report the GPU's minor number.
    """
    return [_parent(host, gpu), *_drm_nodes(host, gpu.pci_address)]


def mig_nodes(host: HostPaths, gpu: Gpu, device: MigDevice) -> list[dra.DeviceNode]:
    """Return the device nodes of a MIG device. Blocking.

    These are the node of its GPU and two capability nodes that give access to its GPU instance and its compute
    instance only.

    Raises:
        DriverNotLoadedError: the kernel module is not loaded.
        InstanceNotFoundError: the instances no longer exist.
        NotSupportedError: the driver does not report the GPU's minor number.
    """
    nodes, majors, minor = [_parent(host, gpu)], read_majors(host.proc), _minor(gpu)
    for compute in (None, device.compute_instance):
        numbers = capability(host.proc, majors, minor, device.gpu_instance, compute)
        nodes.append(_node(host, f"/dev/nvidia-caps/nvidia-cap{numbers.minor}", numbers))
    return nodes


def _minor(gpu: Gpu) -> int:
    if gpu.minor is None:
        raise NotSupportedError(f"the driver doesn't tell the device node of {gpu.uuid}")
    return gpu.minor


def _parent(host: HostPaths, gpu: Gpu) -> dra.DeviceNode:
    minor = _minor(gpu)
    return _node(host, f"/dev/nvidia{minor}", _numbers(host, gpu_major(read_majors(host.proc)), minor))


def _drm_nodes(host: HostPaths, pci_address: str) -> Iterator[dra.DeviceNode]:
    folder = host.sysfs / "bus/pci/devices" / pci_address / "drm"
    names = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
    for name in names:
        there = _on_host(host.dev / "dri" / name)
        if there is not None:
            yield _node(host, f"/dev/dri/{name}", there)


def _numbers(host: HostPaths, major: int, minor: int) -> Numbers:
    owner = node_owner(host.proc)
    return Numbers(major, minor, owner.mode, owner.uid, owner.gid)


def _on_host(path: Path) -> Numbers | None:
    try:
        found = path.stat()
    except OSError:
        return None
    if not stat.S_ISCHR(found.st_mode):
        return None
    number = found.st_rdev
    return Numbers(os.major(number), os.minor(number), stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)


def _node(host: HostPaths, path: str, numbers: Numbers) -> dra.DeviceNode:
    """Return a node by number. If the host has this node, its mode and owner are copied from there."""
    there = _on_host(host.dev / path.removeprefix("/dev/"))
    if there is not None and (there.major, there.minor) == (numbers.major, numbers.minor):
        numbers = there
    return dra.DeviceNode(
        path,
        type="c",
        major=numbers.major,
        minor=numbers.minor,
        file_mode=numbers.mode,
        permissions="rw",
        uid=numbers.uid or None,
        gid=numbers.gid or None,
    )
