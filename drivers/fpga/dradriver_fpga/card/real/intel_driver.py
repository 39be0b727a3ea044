"""Intel's out-of-tree driver of programmable acceleration cards, from before the kernel had DFL.

Its devices are `/sys/class/fpga/intel-fpga-dev.N/intel-fpga-{fme,port}.M`. Most attributes have the names of
DFL, but the interface is `pr/interface_id` of the engine, there is no FPGA manager, and the ioctls have other
numbers.

Source:
    intel-device-plugins-for-kubernetes, pkg/fpga (the ioctls' numbers and structures); OPAE SDK, plugins/xfpga.
"""

import ctypes
from pathlib import Path
from typing import Final

from dradriver_fpga.card.errors import FpgaError
from dradriver_fpga.card.real.mechanisms import Kernel, make_error
from dradriver_fpga.card.real.sysfs import SysfsDevice, list_devices, list_matches
from dradriver_fpga.card.verified_files import VerifiedFile

__all__ = ["INTEL_ENGINE", "IntelPortReconfiguration", "list_intel_devices", "reconfigure_intel_port"]

INTEL_ENGINE: Final = "intel-fpga-fme."
_PORT: Final = "intel-fpga-port."
_FPGA_FME_PORT_PR: Final = 0xB580


class IntelPortReconfiguration(ctypes.Structure):
    """`struct fpga_fme_port_pr`. The driver writes `status`: the errors of the last reconfiguration."""

    _fields_ = (
        ("argsz", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("port_id", ctypes.c_uint32),
        ("buffer_size", ctypes.c_uint32),
        ("buffer_address", ctypes.c_uint64),
        ("status", ctypes.c_uint64),
    )


def list_intel_devices(sysfs: Path) -> tuple[list[SysfsDevice], list[SysfsDevice]]:
    """Return the management engines and the ports."""
    engines: list[SysfsDevice] = []
    ports: list[SysfsDevice] = []
    for card in list_devices(sysfs, "fpga", lambda link: link.name.startswith("intel-fpga-dev.")):
        engines += map(SysfsDevice, list_matches(card.path, f"{INTEL_ENGINE}*"))
        ports += map(SysfsDevice, list_matches(card.path, f"{_PORT}*"))
    return engines, ports


def reconfigure_intel_port(kernel: Kernel, engine: Path, port: int, file: VerifiedFile) -> None:
    """Reconfigure a port through `/dev/intel-fpga-fme.N`. If the process dies, the kernel ends the write.

    Raises:
        FpgaError: the kernel rejected the bits.
    """
    with file.map_bits() as (address, size):
        request = IntelPortReconfiguration(
            argsz=ctypes.sizeof(IntelPortReconfiguration),
            port_id=port,
            buffer_size=size,
            buffer_address=address,
        )
        try:
            kernel.ioctl(engine, _FPGA_FME_PORT_PR, request)
        except OSError as error:
            status = f" (status 0x{request.status:x})" if request.status else ""
            raise make_error(error, f"port {port} through {engine}{status}") from error
    if request.status:
        raise FpgaError(f"port {port} through {engine}: reconfiguration ended with status 0x{request.status:x}")
