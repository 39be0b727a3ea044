"""Programs, firmware, sockets and configuration files of the driver for containers."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.host.paths import HostPaths, find_program

__all__ = ["make_mount", "make_other_mounts"]

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
    "nvidia-xconfig",
)
_SOCKETS: Final = ("nvidia-persistenced/socket", "nvidia-fabricmanager/socket")
_FIRMWARE: Final = ("gsp*.bin", "ucodes*.bin")

_CONFIGURATION_FOLDERS: Final = ("etc", "usr/local/share", "usr/share")
_CONFIGURATIONS: Final = {
    "glvnd/egl_vendor.d/10_nvidia.json": "/usr/share",
    "egl/egl_external_platform.d/15_nvidia_gbm.json": "/usr/share",
    "egl/egl_external_platform.d/10_nvidia_wayland.json": "/usr/share",
    "egl/egl_external_platform.d/09_nvidia_wayland2.json": "/usr/share",
    "egl/egl_external_platform.d/20_nvidia_xcb.json": "/usr/share",
    "egl/egl_external_platform.d/20_nvidia_xlib.json": "/usr/share",
    "nvidia/nvoptix.bin": "/usr/share",
    "X11/xorg.conf.d/10-nvidia.conf": "/usr/share",
    "X11/xorg.conf.d/nvidia-drm-outputclass.conf": "/usr/share",
    "OpenCL/vendors/nvidia.icd": "/etc",
    "vulkan/icd.d/nvidia_icd.json": "/etc",
    "vulkan/icd.d/nvidia_layers.json": "/etc",
    "vulkan/implicit_layer.d/nvidia_layers.json": "/etc",
    f"vulkan/icd.d/nvidia_icd.{os.uname().machine}.json": "/etc",
}
"""File by which EGL, OptiX, X, OpenCL or Vulkan finds the driver -> folder that has it in the container.

Source: `internal/discover/graphics.go` of NVIDIA's container toolkit 1.20."""


def make_other_mounts(host: HostPaths, version: str) -> Iterator[dra.Mount]:
    """Yield mounts of the programs, firmware files, sockets and configuration files that exist. Blocking."""
    for name in _PROGRAMS:
        if (program := find_program(host.driver_root, name)) is not None:
            yield make_mount(host, program)
    for folder in _list_firmware_folders(host):
        for pattern in _FIRMWARE:
            for path in sorted((folder / "nvidia" / version).glob(pattern)):
                yield make_mount(host, path)
    for name in _SOCKETS:
        folders = (host.driver_root / folder / name for folder in ("run", "var/run"))
        if (socket := next((path for path in folders if path.is_socket()), None)) is not None:
            yield make_mount(host, socket, options=_SOCKET)
    yield from _make_configuration_mounts(host)


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
    return dra.Mount(_to_host_path(host, path), f"/{container_file}", options)


def _list_firmware_folders(host: HostPaths) -> list[Path]:
    """Return the folders in which the kernel searches for firmware. Source: the kernel's `fw_path`."""
    release = os.uname().release
    names = [
        f"lib/firmware/updates/{release}",
        "lib/firmware/updates",
        f"lib/firmware/{release}",
        "lib/firmware",
    ]
    with suppress(OSError):
        text = (host.sysfs / "module/firmware_class/parameters/path").read_text().strip()
        names[:0] = [text.lstrip("/")] if text else []
    return list(dict.fromkeys(host.driver_root / name for name in names))


def _make_configuration_mounts(host: HostPaths) -> Iterator[dra.Mount]:
    for name, container_folder in _CONFIGURATIONS.items():
        paths = (host.driver_root / folder / name for folder in _CONFIGURATION_FOLDERS)
        if (path := next((path for path in paths if path.is_file()), None)) is not None:
            yield dra.Mount(_to_host_path(host, path), f"{container_folder}/{name}", _FILE)


def _to_host_path(host: HostPaths, path: Path) -> str:
    return str(host.driver_root_on_host / path.relative_to(host.driver_root))
