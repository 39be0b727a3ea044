"""Files of the driver that programs in containers need: libraries, firmware, programs and sockets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.host.ldcache import find_libraries
from dradriver_gpu_mig.host.paths import HostPaths
from dradriver_gpu_mig.host.programs import find_program
from dradriver_gpu_mig.host.root import resolve

__all__ = ["driver_libraries", "library_links", "mount", "other_files"]

_FILE: Final = ["ro", "nosuid", "nodev", "rbind", "rprivate"]
_SOCKET: Final = ["nosuid", "nodev", "rbind", "rprivate", "noexec"]
_PROGRAMS: Final = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-imex",
    "nvidia-imex-ctl",
)
_SOCKETS: Final = ("nvidia-persistenced/socket", "nvidia-fabricmanager/socket")
_FIRMWARE: Final = ("gsp*.bin", "ucodes*.bin")


def driver_libraries(host: HostPaths, version: str) -> list[Path]:
    """Return the driver's libraries, as this process sees them: all names that end in its version. Blocking."""
    main = find_libraries(host.driver_root, f"lib*.so.{version}")
    beside = {library.parent / "vdpau" for library in main}
    return main + sorted(path for folder in beside for path in folder.glob(f"*.so.{version}"))


def library_links(host: HostPaths, libraries: list[Path]) -> Iterator[tuple[Path, Path]]:
    """Yield each link that programs load a library by, such as `libcuda.so.1`, with its library. Blocking."""
    known = set(libraries)
    for folder in dict.fromkeys(library.parent for library in libraries):
        for path in sorted(path for path in folder.iterdir() if ".so" in path.name and path.is_symlink()):
            if (library := resolve(host.driver_root, path)) in known:
                yield path, library


def other_files(host: HostPaths, version: str) -> Iterator[dra.Mount]:
    """Yield mounts of the programs, firmware files and sockets that exist. Blocking."""
    for name in _PROGRAMS:
        if (program := find_program(host.driver_root, name)) is not None:
            yield mount(host, program)
    firmware = host.driver_root / "lib/firmware/nvidia" / version
    for pattern in _FIRMWARE:
        for path in sorted(firmware.glob(pattern)):
            yield mount(host, path)
    for name in _SOCKETS:
        folders = (host.driver_root / folder / name for folder in ("run", "var/run"))
        if (socket := next((path for path in folders if path.is_socket()), None)) is not None:
            yield mount(host, socket, options=_SOCKET)


def mount(
    host: HostPaths, path: Path, *, container_path: Path | None = None, options: list[str] = _FILE
) -> dra.Mount:
    """Return the mount of a file at the same path relative to the driver's root and the container's root.

    Args:
        host: paths of the node, with the driver's root.
        path: the file, as this process sees it.
        container_path: a different place, as this process would see it; None: the place of `path`.
        options: mount options.
    """
    inside = (container_path or path).relative_to(host.driver_root)
    on_host = host.driver_root_on_host / path.relative_to(host.driver_root)
    return dra.Mount(str(on_host), f"/{inside}", options)
