"""An invalid bitstream behind a valid header is rejected after two failures and taints no third card."""

import hashlib
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver import DriverContext
from dradriver_fpga.bitstreams import FailedBitstreams
from dradriver_fpga.card import Bitstream, ManagerFailedError, ManagerState
from tests.drivers.fpga.nodes import INTERFACES, Node, pod, wait_for_reason
from tests.unit.conditions.fabric import Lab

CARDS = ("0000:3b:00.0", "0000:3d:00.0")
DAY = 24 * 3600.0


@pytest.fixture
def node(tmp_path: Path) -> Node:
    folder = tmp_path / "node"
    folder.mkdir()
    return Node(folder, ("pac", "pac"))


def garbage(node: Node) -> Bitstream:
    """A file that no region takes, though its header is right."""
    image = node.images.fitting("pac")
    for card in CARDS:
        for region in range(2):
            node.controls.fail_next(f"{card}/{region}", ManagerState.WRITE_ERROR)
    return image


def heal(node: Node) -> None:
    """The regions take what they are given again."""
    with node.store.change() as state:
        for card in state.cards:
            card.faults = {}


def regions(lab: Lab) -> set[str]:
    """Tainted regions. Taints of slots are about their present fault."""
    return {device for device in lab.tainted() if "region" in device}


async def test_the_second_failure_is_the_bitstreams_and_taints_nothing(lab: Lab, node: Node) -> None:
    image = garbage(node)
    async with lab.scheduler(), node.running(lab):
        await pod(lab, "pod-1", node.reference(image))
        condition = await wait_for_reason(lab, "pod-1", "FailedTwice")
        assert len(regions(lab)) == 1
        assert image.sha256 in condition.message
        assert "write error" in condition.message
        assert node.calls.count("program") == 2


async def test_it_is_refused_from_then_on_without_a_card_after_a_restart_too(lab: Lab, node: Node) -> None:
    image = garbage(node)
    async with lab.scheduler():
        async with node.running(lab):
            await pod(lab, "pod-1", node.reference(image))
            await wait_for_reason(lab, "pod-1", "FailedTwice")
            await lab.delete_pod("pod-1")
        async with node.running(lab):
            await pod(lab, "pod-2", node.reference(image))
            await wait_for_reason(lab, "pod-2", "FailedTwice")
            assert node.calls.count("program") == 2
            assert len(regions(lab)) == 1
            heal(node)
            await lab.delete_pod("pod-2")
            await pod(lab, "pod-3", node.reference(node.images.fitting("pac", "ab" * 16)))
            assert await lab.bound("pod-3")


async def test_a_shell_of_the_operators_is_never_refused(node: Node, tmp_path: Path) -> None:
    node.with_shells()
    driver = node.driver()
    driver.set_context(DriverContext("node-1", tmp_path / "driver"))
    programmer = (await driver._get_node()).programmer
    region = f"pci-0000-3b-00-0-region-0-{INTERFACES[1][:12]}"
    for _ in range(3):
        node.controls.fail_next(CARDS[0], ManagerState.WRITE_ERROR)
        with pytest.raises(ManagerFailedError):
            await programmer.ensure(region, None, "default")
    await programmer.ensure(region, None, "default")
    await driver.shutdown()
    assert node.controls.cards()[0].interface_id == INTERFACES[1]


def kept(path: Path) -> dict[str, object]:
    found = json.loads(path.read_text())
    assert isinstance(found, dict)
    return found


def digest(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def test_one_failure_refuses_nothing_and_a_success_takes_it_back(tmp_path: Path) -> None:
    failed = FailedBitstreams(tmp_path / "failed.json")
    assert not failed.add(digest(1), "write error", 0)
    assert failed.find_rejection(digest(1), 1) == ""
    failed.remove(digest(1), 2)
    assert not failed.add(digest(1), "write error", 3)
    assert failed.add(digest(1), "write init error", 4)
    assert "write init error" in failed.find_rejection(digest(1), 5)
    assert failed.find_rejection(digest(2), 5) == ""


def test_a_new_process_knows_earlier_failures(tmp_path: Path) -> None:
    FailedBitstreams(tmp_path / "failed.json").add(digest(1), "write error", 0)
    assert FailedBitstreams(tmp_path / "failed.json").add(digest(1), "write error", 1)
    assert FailedBitstreams(tmp_path / "failed.json").find_rejection(digest(1), 2)


def test_it_is_tried_again_a_day_after_its_last_failure(tmp_path: Path) -> None:
    failed = FailedBitstreams(tmp_path / "failed.json")
    for now in (0, 10):
        failed.add(digest(1), "write error", now)
    assert failed.find_rejection(digest(1), DAY + 9)
    assert failed.find_rejection(digest(1), DAY + 11) == ""
    assert not failed.add(digest(1), "write error", DAY + 12)


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"a": 1}', '{"a": {"count": "x"}}'])
def test_a_damaged_file_costs_the_memory_and_nothing_else(tmp_path: Path, text: str) -> None:
    path = tmp_path / "failed.json"
    path.write_text(text)
    failed = FailedBitstreams(path)
    assert failed.find_rejection(digest(1), 0) == ""
    failed.add(digest(1), "write error", 0)
    assert failed.add(digest(1), "write error", 1)
    assert set(kept(path)) == {digest(1)}


def test_a_folder_that_cannot_be_written_costs_the_next_process_the_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    failed = FailedBitstreams(tmp_path / "file" / "failed.json")
    failed.add(digest(1), "write error", 0)
    assert failed.add(digest(1), "write error", 1)
    assert failed.find_rejection(digest(1), 2)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 1500), st.booleans()), max_size=40))
def test_the_file_is_bounded_and_contains_the_latest_failures(events: list[tuple[int, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "failed.json"
        failed = FailedBitstreams(path, max_digests=8)
        counts: dict[str, int] = {}
        for now, (number, fails) in enumerate(events):
            name = digest(number % 12)
            if fails:
                counts[name] = counts.pop(name, 0) + 1
                counts = dict(list(counts.items())[-8:])
                assert failed.add(name, "x" * 1000, now) is (counts[name] >= 2)
            else:
                counts.pop(name, None)
                failed.remove(name, now)
            assert {each: bool(failed.find_rejection(each, now)) for each in counts} == {
                each: count >= 2 for each, count in counts.items()
            }
            if path.exists():
                assert set(kept(path)) == set(counts)
                assert path.stat().st_size < 8 * 1024
