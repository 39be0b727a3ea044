"""State of the hardware after a process was killed, and how other processes read it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dradriver_gpu_mig.card import Event, EventKind, Placement
from dradriver_gpu_mig.card.nvml import NvmlGpus
from dradriver_gpu_mig.card.simulator import GpuFileStore, SimulatedGpus
from tests.drivers.gpu_mig.mig_devices import list_mig_devices
from tests.drivers.gpu_mig.shim.controls import SIGKILL, ShimControls, environment

CREATE = """
import sys
from pathlib import Path
from dradriver_gpu_mig.card import Placement
from dradriver_gpu_mig.card.nvml import NvmlGpus
hardware = NvmlGpus(Path(sys.argv[1]))
hardware.open()
(gpu,) = hardware.gpus()
made = hardware.create_gpu_instance(gpu.uuid, 9, Placement(4, 4))
hardware.create_compute_instance(gpu.uuid, made)
"""

EVENT = """
import sys
from pathlib import Path
from dradriver_gpu_mig.card import EventKind
from tests.drivers.gpu_mig.shim.controls import ShimControls
ShimControls(Path(sys.argv[1])).report_error(0, EventKind.XID, xid=79)
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
def test_a_killed_process_leaves_its_instances(
    cards: Path, call: str, *, after: bool, instances: int, devices: int
) -> None:
    ShimControls(cards).fault(call, SIGKILL, after=after)
    assert in_another_process(CREATE, cards) == SIGKILL
    hardware = NvmlGpus(cards)
    hardware.open()
    (gpu,) = hardware.gpus()
    assert len(hardware.gpu_instances(gpu.uuid)) == instances
    assert len(list_mig_devices(hardware, gpu.uuid)) == devices
    hardware.close()


def test_an_error_is_reported_to_all_listeners(cards: Path) -> None:
    hardware = NvmlGpus(cards)
    hardware.open()
    assert in_another_process(EVENT, cards) == 0
    assert hardware.wait_event(1) == Event(EventKind.XID, hardware.gpus()[0].uuid, 79)
    hardware.close()


def test_simulated_cards_in_a_file_are_found_again(tmp_path: Path) -> None:
    one = SimulatedGpus(["a30"], store=GpuFileStore(tmp_path / "cards.json"))
    one.open()
    (gpu,) = one.gpus()
    made = one.create_gpu_instance(gpu.uuid, 5, Placement(2, 2))
    other = SimulatedGpus(["a30"], store=GpuFileStore(tmp_path / "cards.json"))
    other.open()
    assert other.gpus() == (gpu,)
    assert other.gpu_instances(gpu.uuid) == (made,)
    other.report_error(gpu.uuid, EventKind.XID, xid=48)
    assert [event.kind for event in iter(lambda: one.wait_event(0), None)] == [
        EventKind.MIG_CHANGED,
        EventKind.XID,
    ]


def test_the_cards_of_two_nodes_have_different_uuids() -> None:
    one, other = (SimulatedGpus(["a30"], node=name) for name in ("one", "other"))
    one.open()
    other.open()
    assert one.gpus()[0].uuid != other.gpus()[0].uuid
