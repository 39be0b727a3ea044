"""The files that NVIDIA's driver leaves on a node, below a folder."""

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

__all__ = ["CAPS_MAJOR", "GPU_MAJOR", "UVM_MAJOR", "NodeFiles", "capability_minor"]

GPU_MAJOR: Final = 195
CAPS_MAJOR: Final = 238
UVM_MAJOR: Final = 511
_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"
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
    """

    def __init__(self, root: Path, gpus: int = 1) -> None:
        self.root = root
        self.gpus = gpus
        self._proc()
        self._pci()
        self._driver()
        (root / "dev").mkdir()

    @property
    def host(self) -> HostPaths:
        """Where all of it is."""
        return HostPaths(
            self.root,
            self.root,
            self.root / "dev",
            self.root / "proc",
            self.root / "sys",
            (self.root / "etc/cdi",),
        )

    def add_libraries(self) -> None:
        """Libraries as a linker makes them, for programs that read their soname."""
        assert COMPILER is not None
        folder = self.root / _LIBRARIES
        for library in sorted(folder.rglob(f"*.so.{DRIVER_VERSION}")):
            soname = library.name.removesuffix(DRIVER_VERSION) + "1"
            command = (COMPILER, "-shared", f"-Wl,-soname,{soname}", "-x", "c", "/dev/null", "-o", str(library))
            subprocess.run(command, check=True)

    def add_device_nodes(self) -> None:
        """All device nodes, those of all instances too. Root only."""
        for path, major, minor, mode in self._nodes():
            path.parent.mkdir(exist_ok=True)
            os.mknod(path, stat.S_IFCHR, os.makedev(major, minor))
            path.chmod(mode)

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
        libraries = self.root / _LIBRARIES
        (libraries / "vdpau").mkdir(parents=True)
        for name in ("libcuda", "libnvidia-ptxjitcompiler", "libnvidia-opticalflow"):
            (libraries / f"{name}.so.{DRIVER_VERSION}").write_bytes(b"")
            (libraries / f"{name}.so.1").symlink_to(f"{name}.so.{DRIVER_VERSION}")
        (libraries / f"vdpau/libvdpau_nvidia.so.{DRIVER_VERSION}").write_bytes(b"")
        (libraries / "libother.so.6").write_bytes(b"")
        programs = self.root / "usr/bin"
        programs.mkdir(parents=True)
        for name in ("nvidia-smi", "nvidia-cuda-mps-control"):
            (programs / name).write_text("#!/bin/sh\n")
            (programs / name).chmod(0o755)
        firmware = self.root / f"lib/firmware/nvidia/{DRIVER_VERSION}"
        firmware.mkdir(parents=True)
        (firmware / "gsp_ga10x.bin").write_bytes(b"")
        sockets = self.root / "run/nvidia-persistenced"
        sockets.mkdir(parents=True)
        _bind(sockets / "socket")


def _bind(path: Path) -> None:
    # A path below pytest's folders may be longer than a socket's name can be.
    here = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{here}/{path.name}")
    finally:
        os.close(here)
