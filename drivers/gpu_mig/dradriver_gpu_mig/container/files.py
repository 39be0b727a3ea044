"""Files of the driver for containers, and hooks of NVIDIA's container toolkit for its libraries."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.host.ldcache import find_libraries
from dradriver_gpu_mig.host.paths import HostPaths, find_program, resolve

__all__ = [
    "find_driver_libraries",
    "find_library_links",
    "make_library_hooks",
    "make_mount",
    "make_other_mounts",
]

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


def find_driver_libraries(host: HostPaths, version: str) -> list[Path]:
    """Return the driver's libraries, as this process sees them: all files whose names end in the version.

    Blocking.
    """
    libraries = find_libraries(host.driver_root, f"lib*.so.{version}")
    vdpau_folders = {library.parent / "vdpau" for library in libraries}
    return libraries + sorted(path for folder in vdpau_folders for path in folder.glob(f"*.so.{version}"))


def find_library_links(host: HostPaths, libraries: list[Path]) -> Iterator[tuple[Path, Path]]:
    """Yield each link by which programs load a library, such as `libcuda.so.1`, and the library. Blocking."""
    known = set(libraries)
    for folder in dict.fromkeys(library.parent for library in libraries):
        for path in sorted(path for path in folder.iterdir() if ".so" in path.name and path.is_symlink()):
            if (library := resolve(host.driver_root, path)) in known:
                yield path, library


def make_other_mounts(host: HostPaths, version: str) -> Iterator[dra.Mount]:
    """Yield mounts of the programs, firmware files and sockets that exist. Blocking."""
    for name in _PROGRAMS:
        if (program := find_program(host.driver_root, name)) is not None:
            yield make_mount(host, program)
    firmware = host.driver_root / "lib/firmware/nvidia" / version
    for pattern in _FIRMWARE:
        for path in sorted(firmware.glob(pattern)):
            yield make_mount(host, path)
    for name in _SOCKETS:
        folders = (host.driver_root / folder / name for folder in ("run", "var/run"))
        if (socket := next((path for path in folders if path.is_socket()), None)) is not None:
            yield make_mount(host, socket, options=_SOCKET)


def make_mount(
    host: HostPaths, path: Path, *, container_path: Path | None = None, options: list[str] = _FILE
) -> dra.Mount:
    """Return a mount of a file. Its path in the container is its path relative to the driver's root.

    Args:
        host: paths of the node, with the driver's root.
        path: the file, as this process sees it.
        container_path: another path in the container, as this process would see it; None: `path`.
        options: mount options.
    """
    container_file = (container_path or path).relative_to(host.driver_root)
    on_host = host.driver_root_on_host / path.relative_to(host.driver_root)
    return dra.Mount(str(on_host), f"/{container_file}", options)


_EXTRA_LINKS: Final = {"libcuda.so.": "libcuda.so", "libnvidia-opticalflow.so.": "libnvidia-opticalflow.so"}
"""Links such as `libcuda.so` that belong to the development files. Some programs load them by mistake."""


def make_library_hooks(host: HostPaths, hook: Path, libraries: list[Path]) -> Iterator[dra.Hook]:
    """Yield the hooks that make mounted libraries known to the container's dynamic linker. Blocking.

    An unknown hook prevents the container from starting, so this function uses only hooks that every version of
    the toolkit has. The other hooks are in the toolkit's own CDI spec.
    """
    if not libraries:
        return
    links = sorted(
        {f"{target}::/{path.relative_to(host.driver_root)}" for path, target in _list_links(host, libraries)}
    )
    folders = list(dict.fromkeys(f"/{library.parent.relative_to(host.driver_root)}" for library in libraries))
    yield _make_hook(hook, "create-symlinks", "--link", links)
    yield _make_hook(hook, "update-ldcache", "--folder", folders)


def _list_links(host: HostPaths, libraries: list[Path]) -> Iterator[tuple[Path, str]]:
    for path, _ in find_library_links(host, libraries):
        yield path, path.readlink().name
    for library in libraries:
        for prefix, name in _EXTRA_LINKS.items():
            if library.name.startswith(prefix):
                yield library.parent / name, f"{name}.1"


def _make_hook(hook: Path, name: str, option: str, values: Iterable[str]) -> dra.Hook:
    arguments = [hook.name, name, *(part for value in values for part in (option, value))]
    return dra.Hook("createContainer", str(hook), arguments)
