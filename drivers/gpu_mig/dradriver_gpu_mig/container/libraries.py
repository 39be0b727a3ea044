"""The driver's libraries, and the links by which programs load them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from dradriver_gpu_mig.host.ldcache import find_libraries
from dradriver_gpu_mig.host.paths import HostPaths, resolve

__all__ = ["DriverLibraries", "find_driver_libraries"]

_UNVERSIONED: Final = (
    "libnvidia-nvvm70.so.*",
    "libnvidia-egl-gbm.so.*.*",
    "libnvidia-egl-wayland.so.*.*",
    "libnvidia-egl-wayland2.so.*.*",
    "libnvidia-egl-xcb.so.*.*",
    "libnvidia-egl-xlib.so.*.*",
)
"""Libraries whose file names do not end in the version of the driver."""
_XORG_FOLDERS: Final = ("nvidia/xorg", *(
    f"xorg/modules{updates}/{kind}" for updates in ("", "/updates") for kind in ("drivers", "extensions")
))  # fmt: skip
_XORG_ROOTS: Final = tuple(
    f"{root}/modules{updates}/{kind}"
    for root in ("usr/lib/xorg", "usr/lib64/xorg", "usr/X11R6/lib", "usr/X11R6/lib64")
    for updates in ("", "/updates")
    for kind in ("drivers", "extensions")
)
"""Folders of the X server's modules: below the folder of the libraries, and below the root."""

_EXTRA_LINKS: Final = {
    "libcuda": ("libcuda.so", "libcuda.so.1"),
    "libnvidia-opticalflow": ("libnvidia-opticalflow.so", "libnvidia-opticalflow.so.1"),
    "libGLX_nvidia": ("libGLX_indirect.so.0", "{file}"),
    "libnvidia-allocator": ("gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1"),
    "libnvidia-vulkan-producer": ("libnvidia-vulkan-producer.so", "{file}"),
    "libglxserver_nvidia": ("libglxserver_nvidia.so", "{file}"),
}
"""Library -> a link that programs load it by, and the link's target. An installer of NVIDIA's driver may leave
the link to the development files or to the graphics packages."""


class DriverLibraries:
    """Libraries of the installed driver.

    Attributes:
        linked: libraries of the dynamic linker's folders, and their VDPAU drivers.
        modules: modules of the X server, which loads them by path.
    """

    def __init__(self, host: HostPaths, linked: list[Path], modules: list[Path]) -> None:
        self._host = host
        self.linked = linked
        self.modules = modules

    @property
    def all(self) -> list[Path]:
        """Return all libraries, as this process sees them."""
        return [*self.linked, *self.modules]

    @property
    def folders(self) -> list[str]:
        """Return the folders of the linked libraries, as a container sees them."""
        return list(dict.fromkeys(self._in_container(library.parent) for library in self.linked))

    @property
    def cuda_folders(self) -> list[str]:
        """Return the folders of the linked libraries, without those of VDPAU drivers."""
        return [folder for folder in self.folders if not folder.endswith("/vdpau")]

    def contains(self, stem: str) -> bool:
        """Return whether a linked library has this name before `.so`."""
        return any(library.name.startswith(f"{stem}.so.") for library in self.linked)

    def links_on_node(self) -> Iterator[tuple[Path, Path]]:
        """Yield each link of the node such as `libcuda.so.1`, and the linked library. Blocking."""
        known = set(self.linked)
        for folder in dict.fromkeys(library.parent for library in self.linked):
            for path in sorted(path for path in folder.iterdir() if ".so" in path.name and path.is_symlink()):
                if (library := resolve(self._host.driver_root, path)) in known:
                    yield path, library

    def links_in_container(self) -> list[tuple[str, str]]:
        """Return the links that a container needs, each as its path and its target. Blocking."""
        links = {self._in_container(path): path.readlink().name for path, _ in self.links_on_node()}
        for library in self.all:
            extra = _EXTRA_LINKS.get(library.name.partition(".so.")[0])
            if extra is not None:
                name, target = extra
                links[self._in_container(library.parent / name)] = target.format(file=library.name)
        return sorted(links.items())

    def _in_container(self, path: Path) -> str:
        return f"/{path.relative_to(self._host.driver_root)}"


def find_driver_libraries(host: HostPaths, version: str) -> DriverLibraries:
    """Return the driver's libraries. Blocking.

    Args:
        host: paths of the node.
        version: version of the driver. Most file names end in it.

    Source: `pkg/nvcdi` and `internal/discover/graphics.go` of NVIDIA's container toolkit 1.20.
    """
    linked = find_libraries(host.driver_root, f"lib*.so.{version}")
    folders = list(dict.fromkeys(library.parent for library in linked))
    linked += [path for folder in folders for path in sorted((folder / "vdpau").glob(f"*.so.{version}"))]
    linked += find_libraries(host.driver_root, *_UNVERSIONED)
    return DriverLibraries(host, list(dict.fromkeys(linked)), list(_find_modules(host, folders, version)))


def _find_modules(host: HostPaths, folders: Iterable[Path], version: str) -> Iterator[Path]:
    searched = [folder / name for folder in folders for name in _XORG_FOLDERS]
    searched += [host.driver_root / name for name in _XORG_ROOTS]
    for name in ("nvidia_drv.so", f"libglxserver_nvidia.so.{version}"):
        found = (folder / name for folder in searched if (folder / name).is_file())
        if (path := next(found, None)) is not None:
            yield path
