"""Controls of the guest's hardware, inside the guest."""

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.drivers.fabric_cxl.guest.machine import HOOK, HOST
from tests.drivers.fabric_cxl.guest.qmp_hook import DONE

CXL: Final = Path("/sys/bus/cxl/devices")
SLOTS: Final = Path("/sys/bus/pci/slots")
_LIMIT: Final = 120.0


def plug(serial: int, size: int) -> None:
    """Plug memory in, and wait until the kernel shows it."""
    request_plug(serial, size)
    until(lambda: find_memdev(serial) != "" and bool(find_endpoints()))


def unplug(serial: int) -> None:
    """Unplug memory, and wait until the kernel no longer shows it."""
    request_unplug(serial)
    until(lambda: not find_memdev(serial))


def request_plug(serial: int, size: int) -> None:
    """Plug memory in. The kernel shows it later."""
    _call("connect", serial, size)


def request_unplug(serial: int) -> None:
    """Unplug memory. It has left when the call returns."""
    _call("disconnect", serial, 0)


def eject(serial: int) -> None:
    """Unplug memory as the guest's own decision, without the five seconds that a pushed button takes."""
    if memdev := find_memdev(serial):
        address = (CXL / memdev).resolve().parent.name.rpartition(".")[0]
        [slot] = [each for each in SLOTS.iterdir() if (each / "address").read_text().strip() == address]
        (slot / "power").write_text("0")
    request_unplug(serial)


def count_memory() -> int:
    """Return the bytes of system RAM that the kernel counts on."""
    return int(Path("/proc/meminfo").read_text().split()[1]) << 10


def find_memdev(serial: int) -> str:
    """Return the name of the memdev with a serial number; "" if there is none."""
    for file in CXL.glob("mem*/serial"):
        try:
            if int(file.read_text(), 16) == serial:
                return file.parent.name
        except OSError:
            continue  # it is going away
    return ""


def find_endpoints() -> list[Path]:
    """Return the endpoints that memdevs have."""
    return sorted(CXL.glob("endpoint*"))


def until(condition: Callable[[], bool]) -> None:
    """Wait for a state."""
    end = time.monotonic() + _LIMIT
    while not condition():
        assert time.monotonic() < end, "the state never came"
        time.sleep(0.05)


def _call(operation: str, serial: int, size: int) -> None:
    call = {"operation": operation, "kind": "memory", "host": HOST, "serial": serial, "bytes": size}
    with socket.create_connection(HOOK) as connection, connection.makefile("rw") as stream:
        stream.write(json.dumps(call) + "\n")
        stream.flush()
        outcome = stream.readline().strip()
    assert outcome == DONE, outcome
