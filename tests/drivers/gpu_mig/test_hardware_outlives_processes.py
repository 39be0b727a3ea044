"""What a process leaves in the hardware when it is killed, and what others see of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dradriver_gpu_mig.card import Event, EventKind, Placement
from dradriver_gpu_mig.card.nvml import NvmlHardware
from dradriver_gpu_mig.card.simulator import FileStore, SimulatedHardware
from tests.drivers.gpu_mig.shim.hand import SIGKILL, Hand, environment

CREATE = """
import sys
from pathlib import Path
from dradriver_gpu_mig.card import Placement
from dradriver_gpu_mig.card.nvml import NvmlHardware
hardware = NvmlHardware(Path(sys.argv[1]))
hardware.open()
(gpu,) = hardware.gpus()
made = hardware.create_gpu_instance(gpu.uuid, 9, Placement(4, 4))
hardware.create_compute_instance(gpu.uuid, made.id)
"""

EVENT = """
import sys
from pathlib import Path
from dradriver_gpu_mig.card import EventKind
from tests.drivers.gpu_mig.shim.hand import Hand
Hand(Path(sys.argv[1])).fail(0, EventKind.XID, xid=79)
"""


@pytest.fixture
def cards(shim_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in environment(tmp_path / "state", ["a100-40"]).items():
        monkeypatch.setenv(name, value)
    return shim_library


def in_another_process(script: str, library: Path) -> int:
    command = [sys.executable, "-c", script, str(library)]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": "."}, check=False).returncode


@pytest.mark.parametrize(
    ("call", "after", "instances", "devices"),
    [
        ("nvmlDeviceCreateGpuInstanceWithPlacement", False, 0, 0),
        ("nvmlDeviceCreateGpuInstanceWithPlacement", True, 1, 0),
        ("nvmlGpuInstanceCreateComputeInstance", False, 1, 0),
        ("nvmlGpuInstanceCreateComputeInstance", True, 1, 1),
    ],
)
def test_a_killed_process_leaves_what_it_made(
    cards: Path, call: str, *, after: bool, instances: int, devices: int
) -> None:
    Hand(cards).fault(call, SIGKILL, after=after)
    assert in_another_process(CREATE, cards) == SIGKILL
    hardware = NvmlHardware(cards)
    hardware.open()
    (gpu,) = hardware.gpus()
    assert len(hardware.gpu_instances(gpu.uuid)) == instances
    assert len(hardware.mig_devices(gpu.uuid)) == devices
    hardware.close()


def test_an_error_is_told_to_all_who_listen(cards: Path) -> None:
    hardware = NvmlHardware(cards)
    hardware.open()
    assert in_another_process(EVENT, cards) == 0
    assert hardware.wait_event(1) == Event(EventKind.XID, hardware.gpus()[0].uuid, 79)
    hardware.close()


def test_simulated_cards_in_a_file_are_found_again(tmp_path: Path) -> None:
    one = SimulatedHardware(["a30"], store=FileStore(tmp_path / "cards.json"))
    one.open()
    (gpu,) = one.gpus()
    made = one.create_gpu_instance(gpu.uuid, 5, Placement(2, 2))
    other = SimulatedHardware(["a30"], store=FileStore(tmp_path / "cards.json"))
    other.open()
    assert other.gpus() == (gpu,)
    assert other.gpu_instances(gpu.uuid) == (made,)
    other.fail(gpu.uuid, EventKind.XID, xid=48)
    assert [event.kind for event in iter(lambda: one.wait_event(0), None)] == [
        EventKind.MIG_CHANGED,
        EventKind.XID,
    ]


def test_the_cards_of_two_nodes_have_different_uuids() -> None:
    one, other = (SimulatedHardware(["a30"], node=name) for name in ("one", "other"))
    one.open()
    other.open()
    assert one.gpus()[0].uuid != other.gpus()[0].uuid
