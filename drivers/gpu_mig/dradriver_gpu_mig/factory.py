"""Builds the real hardware and the container edits of this node from the settings."""

from pathlib import Path

from dradriver_gpu_mig.card.nvml import NvmlGpus
from dradriver_gpu_mig.container import GpuContainers
from dradriver_gpu_mig.host.ldcache import find_libraries
from dradriver_gpu_mig.host.paths import HostPaths, find_program
from dradriver_gpu_mig.settings import HostSettings

__all__ = ["make_real_gpus"]


def make_real_gpus(host: HostSettings) -> tuple[NvmlGpus, GpuContainers]:
    """Return NVML and the container edits for the paths in the settings. This call opens nothing."""
    paths = HostPaths(
        driver_root=Path(host.driver_root),
        driver_root_on_host=Path(host.driver_root_on_host),
        dev=Path(host.dev),
        proc=Path(host.proc),
        sysfs=Path(host.sysfs),
        cdi=tuple(map(Path, host.cdi)),
        hook=Path(host.hook)
        if host.hook
        else _find_hook(Path(host.driver_root), Path(host.driver_root_on_host)),
    )
    library = Path(host.library) if host.library else _find_library(paths)
    return NvmlGpus(library, driver_root=paths.driver_root, sysfs=paths.sysfs), GpuContainers(paths)


def _find_hook(root: Path, root_on_host: Path) -> Path | None:
    """Return the container toolkit's hook, if it is installed below the driver's root."""
    found = find_program(root, "nvidia-cdi-hook")
    return None if found is None else root_on_host / found.relative_to(root)


def _find_library(paths: HostPaths) -> Path | None:
    """Return the NVML library below the driver's root. None for `/`: the dynamic linker finds the library."""
    if paths.driver_root == Path("/"):
        return None
    found = find_libraries(paths.driver_root, "libnvidia-ml.so.*")
    return found[0] if found else None
