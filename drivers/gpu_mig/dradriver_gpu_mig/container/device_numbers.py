"""Reads the numbers of device nodes from procfs. They are valid even before the device nodes exist."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dradriver_gpu_mig.card.errors import DriverNotLoadedError, InstanceNotFoundError

__all__ = [
    "DeviceNumbers",
    "NodeOwner",
    "find_capability_node",
    "find_gpu_major",
    "find_monitor_node",
    "read_majors",
    "read_node_owner",
]

_DEFAULT_MODE: Final = 0o666
_CAPABILITY_MODE: Final = 0o444


@dataclass(frozen=True, slots=True)
class DeviceNumbers:
    """Numbers and permissions of a character device.

    Attributes:
        major, minor: device numbers.
        mode: permission bits.
        uid, gid: owner; 0 is root.
    """

    major: int
    minor: int
    mode: int = _DEFAULT_MODE
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True)
class NodeOwner:
    """Mode and owner of the driver's device nodes, as the administrator configured the kernel module."""

    mode: int = _DEFAULT_MODE
    uid: int = 0
    gid: int = 0


def read_majors(proc: Path) -> Mapping[str, int]:
    """Return the major numbers of character devices by driver name (`/proc/devices`). Blocking."""
    majors: dict[str, int] = {}
    for line in (proc / "devices").read_text().splitlines():
        match line.split():
            case [major, name] if major.isdigit():
                majors.setdefault(name, int(major))
            case ["Block", *_]:
                break
            case _:
                continue
    return majors


def find_gpu_major(majors: Mapping[str, int]) -> int:
    """Return the major number of /dev/nvidia0 and /dev/nvidiactl.

    Raises:
        DriverNotLoadedError: the kernel module is not loaded.
    """
    # Old drivers use the first name. So far, the number is 195 on every kernel.
    for name in ("nvidia-frontend", "nvidia"):
        if name in majors:
            return majors[name]
    raise DriverNotLoadedError("the kernel module nvidia is not loaded: /proc/devices does not list it")


def read_node_owner(proc: Path) -> NodeOwner:
    """Return mode and owner of the nodes (`/proc/driver/nvidia/params`, options NVreg_DeviceFile*).

    Blocking.
    """
    found = _read_pairs(proc / "driver/nvidia/params")
    return NodeOwner(
        found.get("DeviceFileMode", _DEFAULT_MODE), found.get("DeviceFileUID", 0), found.get("DeviceFileGID", 0)
    )


def find_capability_node(
    proc: Path,
    majors: Mapping[str, int],
    gpu_minor: int,
    gpu_instance: int,
    compute_instance: int | None = None,
) -> DeviceNumbers:
    """Return the capability node that gives access to a GPU instance, or to a compute instance in it. Blocking.

    Args:
        proc: procfs of the host.
        majors: result of `read_majors`.
        gpu_minor: minor number of the GPU.
        gpu_instance: ID of the GPU instance.
        compute_instance: ID of the compute instance; None: return the node of the GPU instance.

    Raises:
        DriverNotLoadedError: the kernel module has no capability nodes.
        InstanceNotFoundError: the kernel does not know the instance.
    """
    if "nvidia-caps" not in majors:
        raise DriverNotLoadedError(
            "the kernel module has no MIG devices: /proc/devices does not list nvidia-caps"
        )
    path = f"gi{gpu_instance}" if compute_instance is None else f"gi{gpu_instance}/ci{compute_instance}"
    access = _read_pairs(proc / f"driver/nvidia/capabilities/gpu{gpu_minor}/mig/{path}/access")
    if "DeviceFileMinor" in access:
        mode = access.get("DeviceFileMode", _CAPABILITY_MODE)
        return DeviceNumbers(majors["nvidia-caps"], access["DeviceFileMinor"], mode)
    # If only the table `mig-minors` is mounted, the instances do not have their own files.
    minors = _read_pairs(proc / "driver/nvidia-caps/mig-minors")
    minor = minors.get(f"gpu{gpu_minor}/{path}/access")
    if minor is None:
        raise InstanceNotFoundError(f"the kernel has no device node for gpu{gpu_minor}/{path}")
    return DeviceNumbers(majors["nvidia-caps"], minor, _CAPABILITY_MODE)


def find_monitor_node(proc: Path, majors: Mapping[str, int]) -> DeviceNumbers | None:
    """Return the capability node for monitoring all MIG devices; None: the driver has none. Blocking.

    The capability `config`, with which MIG devices are created and destroyed, is never looked up.

    Args:
        proc: procfs of the host.
        majors: result of `read_majors`.
    """
    access = _read_pairs(proc / "driver/nvidia/capabilities/mig/monitor")
    minor = access.get("DeviceFileMinor", _read_pairs(proc / "driver/nvidia-caps/mig-minors").get("monitor"))
    if "nvidia-caps" not in majors or minor is None:
        return None
    return DeviceNumbers(majors["nvidia-caps"], minor, access.get("DeviceFileMode", _CAPABILITY_MODE))


def _read_pairs(path: Path) -> dict[str, int]:
    """Return the name and the number of each line that consists of both; empty if the file cannot be read."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    parts = (line.replace(":", " ").split() for line in lines)
    return {part[0]: int(part[1]) for part in parts if len(part) == 2 and part[1].isdigit()}
