"""Memory devices in the CXL root ports of a running guest."""

import time
from collections.abc import Callable
from typing import Final

from tests.drivers.fabric_cxl.guest.qmp import Qmp, QmpError

PORTS: Final = ("rp0", "rp1")
"""IDs of the guest's root ports."""
_PERIPHERAL: Final = "/machine/peripheral"
_LIMIT: Final = 120.0
"""Seconds until a guest that does not answer is reported."""
_POLL: Final = 0.1


def plug(qmp: Qmp, serial: int, size: int) -> None:
    """Plug memory into the lowest free port; a no-op if the memory is plugged.

    If the process dies, QEMU may keep memory that nothing uses.

    Args:
        qmp: the guest.
        serial: serial number of the device.
        size: bytes.

    Raises:
        QmpError: QEMU rejects it, or no port is free.
    """
    device = _name(serial)
    used = _find_used_ports(qmp)
    if device in used.values():
        return
    free = [port for port in PORTS if port not in used]
    if not free:
        raise QmpError("no port is free")
    # QEMU 10.0 does not free the memory of a device that is gone: each device gets memory of its own.
    memory = f"memory-{len(_list(qmp, '/objects'))}"
    qmp.execute("object-add", qom_type="memory-backend-ram", id=memory, size=size, share=True)
    properties = {"id": device, "bus": free[0], "volatile-memdev": memory, "sn": serial}

    def add() -> bool:
        try:
            qmp.execute("device_add", driver="cxl-type3", **properties)
        except QmpError as error:
            # QEMU frees a port some time after the device in it is gone.
            if "already occupied" in str(error):
                return False
            raise
        return True

    _repeat(add, f"port {free[0]} stays occupied")


def unplug(qmp: Qmp, serial: int) -> None:
    """Unplug memory and wait until the guest has let go; a no-op if the memory is not plugged.

    If the process dies, the guest lets the memory go all the same.

    Args:
        qmp: the guest.
        serial: serial number of the device.

    Raises:
        QmpError: the guest does not let go.
    """
    device = _name(serial)

    def remove() -> bool:
        if device not in _list(qmp, _PERIPHERAL):
            return True
        try:
            qmp.execute("device_del", id=device)
        except QmpError as error:
            # The guest has not answered the last request yet. It may have lost it: the request is repeated.
            if not any(
                words in str(error) for words in ("in the process of unplug", "guest is busy", "not found")
            ):
                raise
        return False

    _repeat(remove, f"the guest does not let {device} go")


def _name(serial: int) -> str:
    return f"device-{serial:x}"


def _list(qmp: Qmp, path: str) -> set[str]:
    return {each["name"] for each in qmp.execute("qom-list", path=path)}


def _find_used_ports(qmp: Qmp) -> dict[str, str]:
    """Return the devices by port."""
    devices = [name for name in _list(qmp, _PERIPHERAL) if name.startswith("device-")]
    buses = {
        name: qmp.execute("qom-get", path=f"{_PERIPHERAL}/{name}", property="parent_bus") for name in devices
    }
    return {bus.rpartition("/")[2]: name for name, bus in buses.items()}


def _repeat(step: Callable[[], bool], failure: str) -> None:
    """Repeat a step until it returns True."""
    end = time.monotonic() + _LIMIT
    while not step():
        if time.monotonic() > end:
            raise QmpError(failure)
        time.sleep(_POLL)
