"""The harness runs a driver with the real node side, but without a kubelet and an API server."""

from collections.abc import Callable
from pathlib import Path

import pytest

import dradriver as dra
from dradriver.allocator import Refusal
from dradriver.errors import InvalidObjectError
from dradriver.testing import CrashPoint, Harness, ProcessDiedError, device_request
from tests.unit.testing.drivers import Misspelt, Partitions, Plain

Make = Callable[[Callable[[], dra.Driver]], Harness]


def test_claims_get_different_devices(driver_harness: Make) -> None:
    harness = driver_harness(Plain)
    assert [harness.allocate().results[0].device for _ in range(2)] == ["a", "b"]
    with pytest.raises(Refusal):
        harness.allocate()


def test_a_failed_test_prints_why_a_claim_was_refused(driver_harness: Make) -> None:
    with pytest.raises(Refusal) as refusal:
        driver_harness(Plain).allocate(device_request(Plain.name, "device.attributes['a.b'].c == 1"))
    assert refusal.value.__notes__ == [refusal.value.text()]
    assert "selector" in refusal.value.__notes__[0]


def test_the_allocator_applies_selectors_and_counters(driver_harness: Make) -> None:
    harness = driver_harness(Plain)
    wanted = device_request(Plain.name, 'device.attributes["plain.example.com"].index == 1')
    assert harness.allocate(wanted).results[0].device == "b"


def test_the_slices_are_those_that_would_be_published(driver_harness: Make) -> None:
    harness = driver_harness(Partitions)
    counters, devices = harness.slices()
    assert [each.name for each in counters.spec.shared_counters] == ["card-0"]
    assert [each.name for each in devices.spec.devices][-1] == "whole"
    with pytest.raises(InvalidObjectError, match="Card_0"):
        driver_harness(Misspelt).slices()


def test_edits_are_read_from_the_spec_on_disk(driver_harness: Make) -> None:
    harness = driver_harness(Plain)
    claim = harness.allocate()
    prepared = harness.prepare(claim)
    assert prepared.edits == dra.ContainerEdits(env={"DEVICE": "a"})
    assert prepared.spec == harness.spec(claim)
    assert len(harness.spec_files()) == 1
    assert prepared.devices[0].cdi_ids


def test_a_killed_process_leaves_its_records(driver_harness: Make) -> None:
    harness = driver_harness(Plain)
    claim = harness.allocate()
    first = harness.driver
    with pytest.raises(ProcessDiedError):
        harness.prepare(claim, die_at=CrashPoint.PREPARE_SPEC_WRITTEN)
    assert harness.prepared() == {claim.metadata.uid: "preparing"}
    assert len(harness.spec_files()) == 1
    assert harness.driver is not first


def test_the_folders_have_the_layout_of_the_kubelet(tmp_path: Path) -> None:
    with Harness(Plain, tmp_path) as harness:
        harness.prepare(harness.allocate())
    assert (tmp_path / "plugins/plain.example.com/state.db").exists()
    assert list((tmp_path / "cdi").glob("plain.example.com-claim_*.json"))
