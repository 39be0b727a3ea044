"""The cards of this node, and what its containers get of them."""

from pathlib import Path

from dradriver_gpu_mig.card.nvml import NvmlHardware
from dradriver_gpu_mig.container import GpuContainers
from dradriver_gpu_mig.host.ldcache import find_libraries
from dradriver_gpu_mig.host.paths import HostPaths
from dradriver_gpu_mig.host.programs import find_program
from dradriver_gpu_mig.settings import Host

__all__ = ["real_cards"]


def real_cards(host: Host) -> tuple[NvmlHardware, GpuContainers]:
    """NVML and the node's files, as the settings place them; nothing is opened yet."""
    paths = HostPaths(
        driver_root=Path(host.driver_root),
        driver_root_on_host=Path(host.driver_root_on_host),
        dev=Path(host.dev),
        proc=Path(host.proc),
        sysfs=Path(host.sysfs),
        cdi=tuple(map(Path, host.cdi)),
        hook=Path(host.hook) if host.hook else _hook(Path(host.driver_root), Path(host.driver_root_on_host)),
    )
    library = Path(host.library) if host.library else _library(paths)
    return NvmlHardware(library, driver_root=paths.driver_root, sysfs=paths.sysfs), GpuContainers(paths)


def _hook(root: Path, root_on_host: Path) -> Path | None:
    """The container toolkit's hook, where that is installed beside the driver."""
    found = find_program(root, "nvidia-cdi-hook")
    return None if found is None else root_on_host / found.relative_to(root)


def _library(paths: HostPaths) -> Path | None:
    """The library of a driver that is installed elsewhere; the dynamic linker knows that of our own root."""
    if paths.driver_root == Path("/"):
        return None
    found = find_libraries(paths.driver_root, "libnvidia-ml.so.*")
    return found[0] if found else None
