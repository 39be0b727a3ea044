"""The hook fails with a reason if the guest of a call cannot be changed. A guest tests its successes."""

import subprocess
from pathlib import Path

import msgspec
import pytest

from dradriver_fabric_cxl.emulator.hooks import HardwareCall
from tests.drivers.fabric_cxl.guest.qmp_hook import write_hook

CALL = HardwareCall(
    operation="connect",
    kind="memory",
    connection="/redfish/v1/Fabrics/CXL/Connections/1",
    host="host-1",
    system_uuid="",
    device="",
    serial=0x1234,
    bytes=256 << 20,
)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "No such file or directory"),
        ({"host": "host-2"}, "host-2 is not a guest"),
        ({"kind": "accelerator"}, "guests have only memory"),
    ],
)
def test_a_call_that_no_guest_can_apply_fails(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    hook = write_hook(tmp_path / "hook", {"host-1": tmp_path / "qmp"})
    call = msgspec.json.encode(msgspec.structs.replace(CALL, **changes))
    done = subprocess.run([hook], input=call, capture_output=True, check=False)
    assert done.returncode == 1
    assert reason in done.stderr.decode()
