"""The files that NVIDIA's driver leaves on a node, below a folder."""

import enum
import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dradriver_gpu_mig.card import MigDevice
from dradriver_gpu_mig.host.paths import HostPaths
from tests.drivers.gpu_mig.shim.build import DRIVER_VERSION
from tests.e2e.bed.programs import COMPILER

__all__ = [
    "CAPS_MAJOR", "DRM_MAJOR", "GPU_MAJOR", "GRAPHICS_FILES", "UVM_MAJOR", "Layout", "NodeFiles",
    "capability_minor",
]  # fmt: skip

GPU_MAJOR: Final = 195
CAPS_MAJOR: Final = 238
UVM_MAJOR: Final = 511
DRM_MAJOR: Final = 226
GRAPHICS_FILES: Final = (
    "usr/share/glvnd/egl_vendor.d/10_nvidia.json",
    "usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json",
    "usr/share/nvidia/nvoptix.bin",
    "usr/share/X11/xorg.conf.d/nvidia-drm-outputclass.conf",
    "etc/OpenCL/vendors/nvidia.icd",
    "usr/share/vulkan/icd.d/nvidia_icd.json",
    "usr/share/vulkan/implicit_layer.d/nvidia_layers.json",
)


class Layout(enum.Enum):
    """Where a node has NVIDIA's driver: the driver's root, and the folder of the libraries below it."""

    DEBIAN = ("", "usr/lib/x86_64-linux-gnu")
    RHEL = ("", "usr/lib64")
    DRIVER_CONTAINER = ("run/nvidia/driver", "usr/lib/x86_64-linux-gnu")


_INSTANCES: Final = 15
_COMPUTE: Final = 8


def capability_minor(gpu: int, gpu_instance: int, compute_instance: int | None = None) -> int:
    """The minor of an instance's device node, as the kernel module counts them: 1 and 2 are not instances'."""
    of_instance = 3 + (gpu * _INSTANCES + gpu_instance) * (1 + _COMPUTE)
    return of_instance if compute_instance is None else of_instance + 1 + compute_instance


class NodeFiles:
    """A node below `root`: procfs, libraries, programs, and device nodes where we may make them.

    Args:
        root: an empty folder.
        gpus: how many GPUs the node has.
        layout: where the driver is.
    """

    def __init__(self, root: Path, gpus: int = 1, layout: Layout = Layout.DEBIAN) -> None:
        self.root = root
        self.gpus = gpus
        driver, libraries = layout.value
        self.driver_root = root / driver
        self.libraries = self.driver_root / libraries
        self._proc()
        self._pci()
        self._driver()
        (root / "dev").mkdir()

    @property
    def host(self) -> HostPaths:
        """Where all of it is."""
        return HostPaths(
            self.driver_root,
            self.driver_root,
            self.root / "dev",
            self.root / "proc",
            self.root / "sys",
            (self.root / "etc/cdi",),
            self.root,
        )

    def add_libraries(self) -> None:
        """Libraries as a linker makes them, for programs that read their soname."""
        assert COMPILER is not None
        for library in sorted(self.libraries.rglob("*.so.*")):
            if library.is_symlink():
                continue
            soname = library.name.partition(".so.")[0] + ".so.1"
            command = (
                COMPILER,
                "-shared",
                "-nostdlib",
                f"-Wl,-soname,{soname}",
                "-x",
                "c",
                "/dev/null",
                "-o",
                str(library),
            )
            subprocess.run(command, check=True)

    def add_device_nodes(self) -> None:
        """All device nodes, those of all instances too. Root only."""
        for path, major, minor, mode in self._nodes():
            path.parent.mkdir(exist_ok=True)
            os.mknod(path, stat.S_IFCHR, os.makedev(major, minor))
            path.chmod(mode)

    def add_graphics(self) -> None:
        """What a driver with graphics has: libraries, modules of the X server, configuration files."""
        for name in ("libGLX_nvidia", "libnvidia-allocator", "libnvidia-vulkan-producer"):
            self._add_library(self.libraries, name, DRIVER_VERSION)
        for name in ("libnvidia-egl-gbm", "libnvidia-egl-wayland", "libnvidia-nvvm70"):
            self._add_library(self.libraries, name, "1.1.2")
        modules = self.libraries / "nvidia/xorg"
        modules.mkdir(parents=True)
        for name in ("nvidia_drv.so", f"libglxserver_nvidia.so.{DRIVER_VERSION}"):
            (modules / name).write_bytes(b"")
        for name in GRAPHICS_FILES:
            path = self.driver_root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        (self.driver_root / "usr/bin/nvidia-xconfig").write_text("#!/bin/sh\n")
        (self.driver_root / "usr/bin/nvidia-xconfig").chmod(0o755)

    def add_drm(self) -> None:
        """The nodes of the GPUs in /dev/dri, with the links that udev makes. Root only."""
        by_path = self.root / "dev/dri/by-path"
        by_path.mkdir(parents=True)
        for gpu in range(self.gpus):
            address = f"0000:{7 + 8 * gpu:02x}:00.0"
            for kind, name, minor in (
                ("card", f"card{gpu}", gpu),
                ("render", f"renderD{128 + gpu}", 128 + gpu),
            ):
                (self.root / f"sys/bus/pci/devices/{address}/drm/{name}").mkdir(parents=True)
                os.mknod(self.root / "dev/dri" / name, stat.S_IFCHR | 0o660, os.makedev(DRM_MAJOR, minor))
                (by_path / f"pci-{address}-{kind}").symlink_to(f"../{name}")

    def add_instance(self, gpu: int, device: MigDevice) -> None:
        """The files that the kernel has for an instance while it is there."""
        mig = self.root / f"proc/driver/nvidia/capabilities/gpu{gpu}/mig/gi{device.gpu_instance}"
        for folder, compute in ((mig, None), (mig / f"ci{device.compute_instance}", device.compute_instance)):
            folder.mkdir(parents=True, exist_ok=True)
            minor = capability_minor(gpu, device.gpu_instance, compute)
            (folder / "access").write_text(
                f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
            )

    def unload(self) -> None:
        """The kernel module is gone."""
        (self.root / "proc/devices").write_text("Character devices:\n  1 mem\n\nBlock devices:\n  7 loop\n")

    def _nodes(self) -> Iterator[tuple[Path, int, int, int]]:
        dev = self.root / "dev"
        for gpu in range(self.gpus):
            yield dev / f"nvidia{gpu}", GPU_MAJOR, gpu, 0o666
        yield dev / "nvidiactl", GPU_MAJOR, 255, 0o666
        yield dev / "nvidia-modeset", GPU_MAJOR, 254, 0o666
        yield dev / "nvidia-uvm", UVM_MAJOR, 0, 0o666
        yield dev / "nvidia-uvm-tools", UVM_MAJOR, 1, 0o666
        for minor in range(3, capability_minor(self.gpus, 0)):
            yield dev / f"nvidia-caps/nvidia-cap{minor}", CAPS_MAJOR, minor, 0o444

    def _proc(self) -> None:
        driver = self.root / "proc/driver"
        (driver / "nvidia-caps").mkdir(parents=True)
        (driver / "nvidia").mkdir()
        (self.root / "proc/devices").write_text(
            f"Character devices:\n  1 mem\n{GPU_MAJOR} nvidia-frontend\n{CAPS_MAJOR} nvidia-caps\n"
            f"{UVM_MAJOR} nvidia-uvm\n\nBlock devices:\n  7 loop\n"
        )
        lines = ["config 1", "monitor 2"]
        for gpu in range(self.gpus):
            for instance in range(_INSTANCES):
                lines.append(f"gpu{gpu}/gi{instance}/access {capability_minor(gpu, instance)}")
                lines += (
                    f"gpu{gpu}/gi{instance}/ci{compute}/access {capability_minor(gpu, instance, compute)}"
                    for compute in range(_COMPUTE)
                )
        (driver / "nvidia-caps/mig-minors").write_text("\n".join(lines) + "\n")

    def _pci(self) -> None:
        links = self.root / "sys/bus/pci/devices"
        links.mkdir(parents=True)
        for gpu in range(self.gpus):
            address = f"0000:{7 + 8 * gpu:02x}:00.0"
            device = self.root / f"sys/devices/pci0000:{gpu:02x}/0000:{gpu:02x}:01.0/{address}"
            device.mkdir(parents=True)
            (device / "numa_node").write_text(f"{gpu}\n")
            (links / address).symlink_to(f"../../../devices/{device.relative_to(self.root / 'sys/devices')}")

    def _driver(self) -> None:
        (self.libraries / "vdpau").mkdir(parents=True)
        for name in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler", "libnvidia-opticalflow"):
            self._add_library(self.libraries, name, DRIVER_VERSION)
        (self.libraries / f"vdpau/libvdpau_nvidia.so.{DRIVER_VERSION}").write_bytes(b"")
        (self.libraries / "libother.so.6").write_bytes(b"")
        programs = self.driver_root / "usr/bin"
        programs.mkdir(parents=True)
        for name in ("nvidia-smi", "nvidia-cuda-mps-control"):
            (programs / name).write_text("#!/bin/sh\n")
            (programs / name).chmod(0o755)
        (self.root / "sbin").mkdir()
        (self.root / "sbin/ldconfig").write_bytes(b"")
        firmware = self.driver_root / f"lib/firmware/nvidia/{DRIVER_VERSION}"
        firmware.mkdir(parents=True)
        (firmware / "gsp_ga10x.bin").write_bytes(b"")
        (firmware / "ucodes_ga10x.bin").write_bytes(b"")
        sockets = self.driver_root / "run/nvidia-persistenced"
        sockets.mkdir(parents=True)
        _bind(sockets / "socket")

    def _add_library(self, folder: Path, name: str, version: str) -> None:
        (folder / f"{name}.so.{version}").write_bytes(b"")
        (folder / f"{name}.so.1").symlink_to(f"{name}.so.{version}")


def _bind(path: Path) -> None:
    # A path below pytest's folders may be longer than a socket's name can be.
    here = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{here}/{path.name}")
    finally:
        os.close(here)
