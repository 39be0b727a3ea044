"""Builds the real hardware and the container edits of this node from the settings."""

from pathlib import Path

from dradriver_gpu_mig.card.nvml import NvmlGpus
from dradriver_gpu_mig.container import GpuContainers
from dradriver_gpu_mig.host.hook import HookProgram, find_hook, install_hook
from dradriver_gpu_mig.host.ldcache import find_libraries
from dradriver_gpu_mig.host.paths import HostPaths
from dradriver_gpu_mig.settings import HostSettings

__all__ = ["make_real_gpus"]


def make_real_gpus(host: HostSettings, folder: Path) -> tuple[NvmlGpus, GpuContainers]:
    """Return NVML and the container edits for the paths in the settings. Blocking.

    This call opens no card. It copies the shipped `nvidia-cdi-hook` into the driver's folder, if the settings
    name no other one.

    Args:
        host: the paths.
        folder: the driver's own folder, which the container runtime sees at the same path.
    """
    paths = HostPaths(
        driver_root=Path(host.driver_root),
        driver_root_on_host=Path(host.driver_root_on_host),
        dev=Path(host.dev),
        proc=Path(host.proc),
        sysfs=Path(host.sysfs),
        cdi=tuple(map(Path, host.cdi)),
        root=Path(host.root),
    )
    library = Path(host.library) if host.library else _find_library(paths)
    hardware = NvmlGpus(library, driver_root=paths.driver_root, sysfs=paths.sysfs)
    return hardware, GpuContainers(paths, _choose_hook(host.hook, folder, paths))


def _choose_hook(setting: str | None, folder: Path, paths: HostPaths) -> HookProgram | None:
    """Return the program of the settings, else the shipped one, else one of the node."""
    if setting:
        return HookProgram(Path(setting))
    return install_hook(folder) or find_hook(paths.driver_root, paths.driver_root_on_host, paths.root)


def _find_library(paths: HostPaths) -> Path | None:
    """Return the NVML library below the driver's root. None for `/`: the dynamic linker finds the library."""
    if paths.driver_root == Path("/"):
        return None
    found = find_libraries(paths.driver_root, "libnvidia-ml.so.*")
    return found[0] if found else None
