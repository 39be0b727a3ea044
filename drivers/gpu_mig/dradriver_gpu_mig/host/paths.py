"""Paths of the node's files, as this process sees them and as the container runtime sees them."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["HostPaths"]


@dataclass(frozen=True, slots=True)
class HostPaths:
    """Folders of the host.

    Attributes:
        driver_root: folder below which the driver is installed, as this process sees it.
        driver_root_on_host: the same, as the container runtime sees it: `/`, or `/run/nvidia/driver`.
        dev, proc, sysfs: those of the host, as this process sees them.
        cdi: folders of CDI specs, as this process sees them. The first one with a usable spec wins.
        hook: `nvidia-cdi-hook`, as the container runtime sees it; None if the toolkit is not installed.
    """

    driver_root: Path = Path("/")
    driver_root_on_host: Path = Path("/")
    dev: Path = Path("/dev")
    proc: Path = Path("/proc")
    sysfs: Path = Path("/sys")
    cdi: tuple[Path, ...] = (Path("/var/run/cdi"), Path("/etc/cdi"))
    hook: Path | None = None
