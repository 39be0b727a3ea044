"""Device nodes of GPUs and MIG devices, and the control nodes that all programs need."""

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.card import Gpu, MigDevice, NotSupportedError
from dradriver_gpu_mig.container.device_numbers import (
    DeviceNumbers,
    find_capability_node,
    find_gpu_major,
    find_monitor_node,
    read_majors,
    read_node_owner,
)
from dradriver_gpu_mig.host.paths import HostPaths

__all__ = [
    "find_drm_links",
    "make_control_nodes",
    "make_drm_nodes",
    "make_gpu_node",
    "make_mig_nodes",
    "make_monitor_nodes",
]

_CONTROL: Final = 255
_MODESET: Final = 254
_UVM: Final[Mapping[str, int]] = {"nvidia-uvm": 0, "nvidia-uvm-tools": 1}


def make_control_nodes(host: HostPaths) -> list[dra.DeviceNode]:
    """Return the device nodes that are not specific to one GPU: nvidiactl, UVM and modeset. Blocking.

    Raises:
        DriverNotLoadedError: the kernel module is not loaded.
    """
    majors = read_majors(host.proc)
    nodes = [_make_node(host, "/dev/nvidiactl", _make_numbers(host, find_gpu_major(majors), _CONTROL))]
    if "nvidia-uvm" in majors:
        numbered = {name: _make_numbers(host, majors["nvidia-uvm"], minor) for name, minor in _UVM.items()}
        nodes += [_make_node(host, f"/dev/{name}", numbers) for name, numbers in numbered.items()]
    # Only graphics programs need nvidia-modeset, and most nodes do not have it.
    if _read_host_node(host.dev / "nvidia-modeset") is not None:
        nodes.append(
            _make_node(host, "/dev/nvidia-modeset", _make_numbers(host, find_gpu_major(majors), _MODESET))
        )
    return nodes


def make_gpu_node(host: HostPaths, gpu: Gpu) -> dra.DeviceNode:
    """Return the device node of a GPU. Blocking.

    Raises:
        DriverNotLoadedError: the kernel module is not loaded.
        NotSupportedError: the driver does not report the GPU's minor number.
    """
    minor = _require_minor(gpu)
    return _make_node(
        host, f"/dev/nvidia{minor}", _make_numbers(host, find_gpu_major(read_majors(host.proc)), minor)
    )


def make_mig_nodes(host: HostPaths, gpu: Gpu, device: MigDevice) -> list[dra.DeviceNode]:
    """Return the device nodes of a MIG device. Blocking.

    The result is the device node of the GPU and two capability nodes. The capability nodes give access only to
    this MIG device's GPU instance and compute instance.

    Raises:
        DriverNotLoadedError: the kernel module is not loaded.
        InstanceNotFoundError: the instances no longer exist.
        NotSupportedError: the driver does not report the GPU's minor number.
    """
    nodes, majors, minor = [make_gpu_node(host, gpu)], read_majors(host.proc), _require_minor(gpu)
    for compute in (None, device.compute_instance):
        numbers = find_capability_node(host.proc, majors, minor, device.gpu_instance, compute)
        nodes.append(_make_node(host, f"/dev/nvidia-caps/nvidia-cap{numbers.minor}", numbers))
    return nodes


def make_drm_nodes(host: HostPaths, gpu: Gpu) -> list[dra.DeviceNode]:
    """Return the nodes of a GPU in /dev/dri that exist on the node. Graphics programs need them. Blocking."""
    folder = host.sysfs / "bus/pci/devices" / gpu.pci_address / "drm"
    names = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
    found = {f"/dev/dri/{name}": _read_host_node(host.dev / "dri" / name) for name in names}
    return [_make_node(host, path, numbers) for path, numbers in found.items() if numbers is not None]


def find_drm_links(host: HostPaths, gpu: Gpu, nodes: Iterable[dra.DeviceNode]) -> list[tuple[str, str]]:
    """Return the links of a GPU in /dev/dri/by-path, each as its path and its target. Blocking.

    Args:
        host: paths of the node.
        gpu: the GPU.
        nodes: result of `make_drm_nodes`. A link to another node is omitted.
    """
    names, links = {Path(node.path).name for node in nodes}, []
    for kind in ("card", "render"):
        path = f"dri/by-path/pci-{gpu.pci_address}-{kind}"
        with suppress(OSError):
            target = (host.dev / path).readlink()
            if target.name in names:
                links.append((f"/dev/{path}", str(target)))
    return links


def make_monitor_nodes(host: HostPaths) -> list[dra.DeviceNode]:
    """Return the device node for monitoring all MIG devices; empty if the driver has none. Blocking."""
    numbers = find_monitor_node(host.proc, read_majors(host.proc))
    if numbers is None:
        return []
    return [_make_node(host, f"/dev/nvidia-caps/nvidia-cap{numbers.minor}", numbers)]


def _require_minor(gpu: Gpu) -> int:
    if gpu.minor is None:
        raise NotSupportedError(f"{gpu.uuid}: the driver does not report its minor number")
    return gpu.minor


def _make_numbers(host: HostPaths, major: int, minor: int) -> DeviceNumbers:
    owner = read_node_owner(host.proc)
    return DeviceNumbers(major, minor, owner.mode, owner.uid, owner.gid)


def _read_host_node(path: Path) -> DeviceNumbers | None:
    try:
        found = path.stat()
    except OSError:
        return None
    if not stat.S_ISCHR(found.st_mode):
        return None
    number = found.st_rdev
    return DeviceNumbers(
        os.major(number), os.minor(number), stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid
    )


def _make_node(host: HostPaths, path: str, numbers: DeviceNumbers) -> dra.DeviceNode:
    """Return a device node by number. If the node exists on the host, its mode and owner are copied."""
    on_host = _read_host_node(host.dev / path.removeprefix("/dev/"))
    if on_host is not None and (on_host.major, on_host.minor) == (numbers.major, numbers.minor):
        numbers = on_host
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
