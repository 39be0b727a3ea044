"""A guest with CXL root ports, into which memory is plugged while it runs."""

from pathlib import Path
from typing import Final

from dradriver_fabric_cxl.emulator.resources.fabric import system_uuid
from tests.drivers.fabric_cxl.guest import packages
from tests.drivers.fabric_cxl.guest.qmp_hook import write_hook
from tests.drivers.fabric_cxl.guest.slots import PORTS
from tests.drivers.guest.machine import Guest, find_qemu

HOST: Final = "host-1"
"""ID of the guest in the fabric. The computer has the UUID that the emulated manager reports for it."""
HOOK: Final = ("10.0.2.100", 1234)
"""Where the guest reaches the hook: each connection is one call."""
LOOPBACK: Final = "10.0.2.2"
"""Where the guest reaches the host's loopback."""
OUT: Final = Path("/run/out")
"""Folder of the guest that stays."""
_LOAD: Final = (
    *("9pnet_virtio", "9p", "virtio_net"),
    *("libnvdimm", "device_dax", "kmem", "dax_cxl", "cxl_pmem", "cxl_mem", "cxl_pci", "cxl_acpi"),
)
_PORTS: Final = (
    word
    for number, name in enumerate(PORTS)
    for word in ("-device", f"cxl-rp,port={number},bus=cxl.1,id={name},chassis=0,slot={number + 2}")
)
_MACHINE: Final = (
    *("-machine", "q35,cxl=on", "-M", "cxl-fmw.0.targets.0=cxl.1,cxl-fmw.0.size=4G"),
    # In a virtual machine Linux refuses regions, because it cannot flush the processors' caches.
    *("-cpu", "max,hypervisor=off", "-m", "768M,maxmem=8G,slots=4", "-uuid", system_uuid(HOST)),
    *("-device", "pxb-cxl,bus_nr=12,bus=pcie.0,id=cxl.1", *_PORTS),
)
_KERNEL_LINE: Final = "no_timer_check"
"""With `hypervisor=off`, Linux checks the timer, too early for a slow machine."""


def make_guest() -> Guest:
    """Fetch what a guest takes.

    Raises:
        UnavailableError: something can't be fetched.
    """
    return Guest(packages.kernel(), _LOAD, find_qemu(packages.qemu()), _MACHINE, _KERNEL_LINE)


def make_options(folder: Path) -> tuple[str, ...]:
    """Return QEMU's options for the socket, the hook and the folder that stays, which is `folder/out`.

    Args:
        folder: a folder with a short path, without commas.
    """
    socket = folder / "qmp"
    hook = write_hook(folder / "hook", {HOST: socket})
    (folder / "out").mkdir()
    forward = f"guestfwd=tcp:{HOOK[0]}:{HOOK[1]}-cmd:{hook}"
    return (
        *("-qmp", f"unix:{socket},server=on,wait=off"),
        *("-netdev", f"user,id=net,{forward}", "-device", "virtio-net-pci,netdev=net,romfile=,bus=pcie.0"),
        *("-fsdev", f"local,path={folder / 'out'},id=out,security_model=none"),
        *("-device", "virtio-9p-pci,fsdev=out,mount_tag=out,bus=pcie.0"),
    )


MOUNT_OUT: Final = f"mkdir {OUT} && mount -t 9p -o trans=virtio,version=9p2000.L out {OUT}\n"
"""Commands for the guest's shell that make `OUT`."""
