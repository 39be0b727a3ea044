"""Tests of the contract that every driver must keep: subclass `DriverContract` in a test module.

    class TestContract(DriverContract):
        driver_class = MyDriver

The tests need devices. On a machine without the hardware, `make_driver` returns a driver with simulated
hardware. Allocations that are written without a check simulate a faulty scheduler.
"""

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

import pytest

from dradriver.driver import Config, Driver
from dradriver.errors import DraError
from dradriver.model import names
from dradriver.model.cdi import cdi_problems
from dradriver.model.encoding.codec import canonical
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.node.crash_points import CrashPoint
from dradriver.testing.harness import Harness
from dradriver.testing.process import ProcessDiedError

__all__ = ["DriverContract"]

Place: TypeAlias = tuple[str, str]
"""A device: its pool and its name."""
Found: TypeAlias = tuple[Place, Device, Pool]

PREPARE_STEPS: Final = [step for step in CrashPoint if step.name.startswith("PREPARE")]
UNPREPARE_STEPS: Final = [step for step in CrashPoint if step.name.startswith("UNPREPARE")]


class DriverContract:
    """Tests of the promises in the docstrings of `dradriver.Driver`, by the driver and by the SDK.

    Attributes:
        driver_class: the driver under test, if its constructor needs no arguments.
        configs: opaque configuration of every claim, for drivers that require some.
    """

    driver_class: ClassVar[type[Driver]]
    configs: ClassVar[Sequence[Config]] = ()

    def make_driver(self) -> Driver:
        """Return a new driver, as a new process does; override it to use simulated hardware."""
        return self.driver_class()

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[Harness]:
        """Yield the driver on its own node; at the end, nothing may be left over."""
        with Harness(self.make_driver, tmp_path) as harness:
            yield harness

    @pytest.fixture
    def claim(self, harness: Harness) -> ResourceClaim:
        """Return a claim for the first device."""
        return self._claim(harness, _places(harness)[0])

    def test_its_name_is_one_that_kubernetes_accepts(self, harness: Harness) -> None:
        assert names.driver_name(harness.driver.name) is None

    def test_its_slices_are_what_an_api_server_accepts(self, harness: Harness) -> None:
        from dradriver.cluster.rules import problems  # noqa: PLC0415 - slow to import

        broken = {
            each.metadata.name: list(problems("ResourceSlice", canonical(each))) for each in harness.slices()
        }
        assert not any(broken.values()), broken

    def test_names_of_pools_and_devices_are_stable(self, harness: Harness) -> None:
        first, again = _named(harness.discover()), _named(harness.discover())
        harness.restart()
        assert first == again == _named(harness.discover())

    def test_the_allocator_finds_a_device(self, harness: Harness) -> None:
        _places(harness)
        claim = harness.allocate(config=self.configs)
        assert harness.prepare(claim).devices

    def test_every_device_of_a_claim_is_answered_and_its_edits_are_valid(self, harness: Harness) -> None:
        places = _together(harness)
        prepared = harness.prepare(self._claim(harness, *places))
        assert [(answer.pool, answer.device) for answer in prepared.devices] == places
        assert prepared.spec is None or not list(cdi_problems(prepared.spec))

    def test_preparing_again_gives_the_same_answer(self, harness: Harness, claim: ResourceClaim) -> None:
        assert harness.prepare(claim) == harness.prepare(claim)

    def test_claims_of_different_devices_are_prepared_side_by_side(self, harness: Harness) -> None:
        claims = [self._claim(harness, place) for place in _together(harness)]
        for claim in claims:
            harness.prepare(claim)
        assert harness.prepared() == {claim.metadata.uid: "prepared" for claim in claims}

    def test_a_restart_forgets_nothing(self, harness: Harness, claim: ResourceClaim) -> None:
        before = harness.prepare(claim)
        harness.restart()
        assert harness.prepare(claim) == before
        harness.restart()
        harness.unprepare(claim)
        _nothing_is_left(harness)

    def test_after_a_reboot_the_claim_is_prepared_again(self, harness: Harness, claim: ResourceClaim) -> None:
        before = harness.prepare(claim)
        harness.reboot()
        again = harness.prepare(claim)
        assert again.devices == before.devices
        assert (again.spec is None) == (before.spec is None)
        harness.unprepare(claim)
        _nothing_is_left(harness)

    @pytest.mark.parametrize("step", PREPARE_STEPS)
    def test_a_prepare_that_was_killed_is_finished_by_the_next(
        self, harness: Harness, claim: ResourceClaim, step: CrashPoint
    ) -> None:
        with pytest.raises(ProcessDiedError):
            harness.prepare(claim, die_at=step)
        finished = harness.prepare(claim)
        assert harness.prepared() == {claim.metadata.uid: "prepared"}
        assert finished == harness.prepare(claim)
        harness.unprepare(claim)
        _nothing_is_left(harness)

    @pytest.mark.parametrize("step", PREPARE_STEPS)
    def test_a_prepare_that_was_killed_can_be_taken_back(
        self, harness: Harness, claim: ResourceClaim, step: CrashPoint
    ) -> None:
        with pytest.raises(ProcessDiedError):
            harness.prepare(claim, die_at=step)
        harness.unprepare(claim)
        _nothing_is_left(harness)

    @pytest.mark.parametrize("step", UNPREPARE_STEPS)
    def test_an_unprepare_that_was_killed_is_finished_by_the_next(
        self, harness: Harness, claim: ResourceClaim, step: CrashPoint
    ) -> None:
        harness.prepare(claim)
        with pytest.raises(ProcessDiedError):
            harness.unprepare(claim, die_at=step)
        harness.unprepare(claim)
        _nothing_is_left(harness)

    @pytest.mark.parametrize("step", UNPREPARE_STEPS)
    def test_an_unprepare_that_was_killed_can_be_followed_by_a_prepare(
        self, harness: Harness, claim: ResourceClaim, step: CrashPoint
    ) -> None:
        harness.prepare(claim)
        with pytest.raises(ProcessDiedError):
            harness.unprepare(claim, die_at=step)
        assert harness.prepare(claim).devices
        assert harness.prepared() == {claim.metadata.uid: "prepared"}

    def test_unpreparing_twice_is_fine(self, harness: Harness, claim: ResourceClaim) -> None:
        harness.prepare(claim)
        harness.unprepare(claim)
        harness.unprepare(claim)
        _nothing_is_left(harness)

    def test_unpreparing_a_claim_that_nobody_knows_is_fine(self, harness: Harness) -> None:
        harness.unprepare("9a6c3a52-0000-4000-8000-000000000000")
        _nothing_is_left(harness)

    def test_a_claim_can_be_unprepared_after_the_state_was_lost(
        self, harness: Harness, claim: ResourceClaim
    ) -> None:
        harness.prepare(claim)
        harness.lose_state()
        harness.unprepare(claim)
        _nothing_is_left(harness)

    def test_a_device_is_not_prepared_for_two_claims_whatever_the_scheduler_says(
        self, harness: Harness
    ) -> None:
        place = _places(harness)[0]
        first, second = self._claim(harness, place), self._claim(harness, place)
        harness.prepare(first)
        with pytest.raises(DraError) as refusal:
            harness.prepare(second)
        _names_both(refusal.value, first, second)
        harness.unprepare(first)
        assert harness.prepare(second).devices

    def test_a_device_that_is_half_prepared_is_not_given_to_another_claim(self, harness: Harness) -> None:
        place = _places(harness)[0]
        first, second = self._claim(harness, place), self._claim(harness, place)
        with pytest.raises(ProcessDiedError):
            harness.prepare(first, die_at=CrashPoint.PREPARE_RECORDED)
        with pytest.raises(DraError) as refusal:
            harness.prepare(second)
        _names_both(refusal.value, first, second)

    def test_counters_are_not_overdrawn_whatever_the_scheduler_says(self, harness: Harness) -> None:
        found = _too_much(harness)
        if found is None:
            pytest.skip("no devices of this driver together need more of a counter set than it has")
        self._is_refused(harness, *found)

    def test_incompatible_devices_are_not_prepared_together_whatever_the_scheduler_says(
        self, harness: Harness
    ) -> None:
        found = _apart(harness)
        if found is None:
            pytest.skip("no devices of this driver are kept apart by compatibility groups")
        self._is_refused(harness, *found)

    def _is_refused(self, harness: Harness, fine: Sequence[Place], wrong: Place) -> None:
        held = [self._claim(harness, place) for place in fine]
        for claim in held:
            harness.prepare(claim)
        last = self._claim(harness, wrong)
        with pytest.raises(DraError) as refusal:
            harness.prepare(last)
        assert last.metadata.uid not in harness.prepared()
        assert any(_mentions(refusal.value, claim) for claim in held), str(refusal.value)
        for claim in held:
            harness.unprepare(claim)
        assert harness.prepare(last).devices

    def _claim(self, harness: Harness, *places: Place) -> ResourceClaim:
        return harness.allocate_blindly(*places, config=self.configs)


def _named(pools: Sequence[Pool]) -> list[tuple[str, list[str]]]:
    return [(pool.name, [device.name for device in pool.devices]) for pool in pools]


def _devices(harness: Harness) -> list[Found]:
    found = [((pool.name, each.name), each, pool) for pool in harness.discover() for each in pool.devices]
    if not found:
        pytest.skip("the driver found no devices on this machine; give it simulated ones in make_driver()")
    return found


def _places(harness: Harness) -> list[Place]:
    return [place for place, _, _ in _devices(harness)]


def _together(harness: Harness, at_most: int = 2) -> list[Place]:
    """Return some devices that may be in use at the same time."""
    chosen: list[Found] = []
    for found in _devices(harness):
        if len(chosen) < at_most and not _overdrawn([*chosen, found]) and not _incompatible([*chosen, found]):
            chosen.append(found)
    return [place for place, _, _ in chosen]


def _too_much(harness: Harness) -> tuple[list[Place], Place] | None:
    """Return devices that can be prepared together, and one that would then overdraw a counter set."""
    chosen: list[Found] = []
    for found in _devices(harness):
        more = [*chosen, found]
        if _incompatible(more):
            continue
        if _overdrawn(more):
            return [place for place, _, _ in chosen], found[0]
        chosen = more
    return None


def _apart(harness: Harness) -> tuple[list[Place], Place] | None:
    """Return a device, and one that shares no compatibility group with it although the counters suffice."""
    for one, other in combinations(_devices(harness), 2):
        if _incompatible([one, other]) and not _overdrawn([one, other]):
            return [one[0]], other[0]
    return None


# The rules of KEP-4815 and KEP-5963 again, in the simplest form, because the node's own check is under test.


def _overdrawn(found: Sequence[Found]) -> bool:
    taken: Tally[tuple[str, str, str]] = Tally()
    there: dict[tuple[str, str, str], int] = {}
    for _, device, pool in found:
        for consumption in device.consumes_counters:
            for name, counter in consumption.counters.items():
                taken[pool.name, consumption.counter_set, name] += counter.value.nano
        for counter_set in pool.counter_sets:
            for name, counter in counter_set.counters.items():
                there[pool.name, counter_set.name, name] = counter.value.nano
    return any(amount > there.get(key, 0) for key, amount in taken.items())


def _incompatible(found: Sequence[Found]) -> bool:
    groups: dict[tuple[str, str], list[set[str]]] = defaultdict(list)
    for _, device, pool in found:
        for consumption in device.consumes_counters:
            groups[pool.name, consumption.counter_set].append(set(consumption.compatibility_groups))
    return any(any(each) and not set.intersection(*each) for each in groups.values())


def _names_both(refusal: DraError, *claims: ResourceClaim) -> None:
    assert all(_mentions(refusal, claim) for claim in claims), str(refusal)


def _mentions(refusal: DraError, claim: ResourceClaim) -> bool:
    return claim.ref in str(refusal) or claim.metadata.uid in str(refusal)


def _nothing_is_left(harness: Harness) -> None:
    assert harness.prepared() == {}
    assert harness.spec_files() == []
