"""Tests of the loop driver: the contract of every driver, and the features of this driver."""

from pathlib import Path

import pytest

from dradriver.testing import DriverContract, Harness, device_request
from dradriver_loop import LoopConfig, LoopDriver, hardware
from dradriver_loop import driver as loop_driver
from dradriver_loop.hardware import Loop, find_loops, make_loops

LOOPS = [Loop(0, "/dev/loop0", backed=True, size=4096), Loop(3, "/dev/loop3", backed=False, size=0)]


@pytest.fixture(autouse=True)
def simulated_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the loop devices of this machine by two simulated ones. The driver itself is unchanged."""
    monkeypatch.setattr(loop_driver, "make_loops", lambda **_: None)
    monkeypatch.setattr(loop_driver, "find_loops", lambda: iter(LOOPS))


class TestContract(DriverContract):
    driver_class = LoopDriver


def test_a_container_gets_the_node_of_its_device_and_learns_its_path() -> None:
    with Harness(LoopDriver) as harness:
        edits = harness.prepare(harness.allocate_blindly(("node-1", "loop-3"))).edits
    assert edits.env == ("LOOP_DEVICE=/dev/loop3",)
    assert [(node.path, node.permissions) for node in edits.device_nodes] == [("/dev/loop3", "rw")]


def test_a_read_only_device_can_not_be_written() -> None:
    with Harness(LoopDriver) as harness:
        claim = harness.allocate(device_request(LoopDriver.name), config=LoopConfig(read_only=True))
        assert harness.prepare(claim).edits.device_nodes[0].permissions == "r"


def test_a_claim_can_ask_for_a_device_that_no_file_is_behind() -> None:
    with Harness(LoopDriver) as harness:
        free = device_request(LoopDriver.name, '!device.attributes["loop.example.com"].backed')
        assert [result.device for result in harness.allocate(free).results] == ["loop-3"]


def test_devices_without_a_node_are_left_out(tmp_path: Path) -> None:
    for name in ("loop1", "loop10", "loop2", "sda"):
        (tmp_path / "sys" / name).mkdir(parents=True)
        (tmp_path / "sys" / name / "size").write_text("8\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/loop2").touch()
    assert list(find_loops(tmp_path / "sys", tmp_path / "dev")) == []


def test_the_devices_of_this_machine_come_in_the_order_of_their_numbers() -> None:
    indices = [loop.index for loop in find_loops()]
    assert indices == sorted(set(indices))


def test_devices_are_made_until_enough_are_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def create(control: Path, index: int) -> None:
        if index == 3:
            raise PermissionError(control)
        (tmp_path / f"sys/loop{index}").mkdir(parents=True)
        (tmp_path / f"dev/loop{index}").touch()

    monkeypatch.setattr(hardware, "_create_loop", create)
    (tmp_path / "dev").mkdir()
    create(tmp_path, 1)
    (tmp_path / "sys/loop1/loop").mkdir()
    make_loops(free=4, sys_block=tmp_path / "sys", dev=tmp_path / "dev")
    assert sorted(path.name for path in (tmp_path / "dev").iterdir()) == [
        "loop0",
        "loop1",
        "loop2",
        "loop4",
        "loop5",
    ]
