"""The tests that every driver must pass: subclass `DriverContract` in a test module.

    class TestContract(DriverContract):
        driver_class = MyDriver

The tests need devices. On a machine without the hardware, override `make_driver` to return a driver with
simulated hardware. To simulate a faulty scheduler, the tests write allocations without a check.
"""

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
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

DeviceKey: TypeAlias = tuple[str, str]
"""A device: the names of its pool and of the device."""
DiscoveredDevice: TypeAlias = tuple[DeviceKey, Device, Pool]

PREPARE_STEPS: Final = [step for step in CrashPoint if step.name.startswith("PREPARE")]
UNPREPARE_STEPS: Final = [step for step in CrashPoint if step.name.startswith("UNPREPARE")]


class DriverContract:
    """Checks that a driver and the SDK behave as the docstrings of `dradriver.Driver` describe.

    Attributes:
        driver_class: the driver under test, if its constructor needs no arguments.
        configs: the opaque configuration of every claim, for drivers that require configuration.
        pools: pools that a `PoolDriver` of the same name publishes, for a driver that prepares their devices.
        data: the data that a `BindingDriver` of the same name has set for these devices, by device.
        controller_devices: pairs of pool and name of the devices that a `ControllerDriver` allocates, for a
            driver that prepares them. If it is set, the tests use these devices. Otherwise they use the devices
            that the driver discovers.
    """

    driver_class: ClassVar[type[Driver]]
    configs: ClassVar[Sequence[Config]] = ()
    pools: ClassVar[Sequence[Pool]] = ()
    data: ClassVar[Mapping[str, Mapping[str, object]]] = {}
    controller_devices: ClassVar[Sequence[DeviceKey]] = ()

    def make_driver(self) -> Driver:
        """Return a new driver, as a new process would create it; override this to use simulated hardware."""
        return self.driver_class()

    def make_handle(self, devices: Sequence[DeviceKey]) -> bytes | None:  # noqa: ARG002
        """Return the handle that a `ControllerDriver` gives to the driver with these `controller_devices`."""
        return None

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[Harness]:
        """Yield a harness that runs the driver on a node of its own."""
        with Harness(self.make_driver, tmp_path, pools=self.pools, data=self.data) as harness:
            yield harness

    @pytest.fixture
    def claim(self, harness: Harness) -> ResourceClaim:
        """Return a claim for the first device."""
        return self._claim(harness, self._device_keys(harness)[0])

    def test_its_name_is_one_that_kubernetes_accepts(self, harness: Harness) -> None:
        assert names.driver_name(harness.driver.name) is None

    def test_its_slices_are_what_an_api_server_accepts(self, harness: Harness) -> None:
        from dradriver.cluster.rules import find_problems  # noqa: PLC0415 - slow to import

        broken = {
            each.metadata.name: list(find_problems("ResourceSlice", canonical(each)))
            for each in harness.slices()
        }
        assert not any(broken.values()), broken

    def test_names_of_pools_and_devices_are_stable(self, harness: Harness) -> None:
        first, again = _pool_names(harness.discover()), _pool_names(harness.discover())
        harness.restart()
        assert first == again == _pool_names(harness.discover())

    def test_the_allocator_finds_a_device(self, harness: Harness) -> None:
        _devices(harness)
        claim = harness.allocate(config=self.configs)
        assert harness.prepare(claim).devices

    def test_every_device_of_a_claim_is_answered_and_its_edits_are_valid(self, harness: Harness) -> None:
        keys = self._compatible_devices(harness)
        prepared = harness.prepare(self._claim(harness, *keys))
        assert [(answer.pool, answer.device) for answer in prepared.devices] == keys
        assert prepared.spec is None or not list(cdi_problems(prepared.spec))

    def test_preparing_again_gives_the_same_answer(self, harness: Harness, claim: ResourceClaim) -> None:
        assert harness.prepare(claim) == harness.prepare(claim)

    def test_claims_of_different_devices_are_prepared_side_by_side(self, harness: Harness) -> None:
        claims = [self._claim(harness, key) for key in self._compatible_devices(harness)]
        for claim in claims:
            harness.prepare(claim)
        assert harness.prepared() == {claim.metadata.uid: "prepared" for claim in claims}

    def test_a_restart_forgets_nothing(self, harness: Harness, claim: ResourceClaim) -> None:
        before = harness.prepare(claim)
        harness.restart()
        assert harness.prepare(claim) == before
        harness.restart()
        harness.unprepare(claim)
        _assert_nothing_left(harness)

    def test_after_a_reboot_the_claim_is_prepared_again(self, harness: Harness, claim: ResourceClaim) -> None:
        before = harness.prepare(claim)
        harness.reboot()
        again = harness.prepare(claim)
        assert again.devices == before.devices
        assert (again.spec is None) == (before.spec is None)
        harness.unprepare(claim)
        _assert_nothing_left(harness)

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
        _assert_nothing_left(harness)

    @pytest.mark.parametrize("step", PREPARE_STEPS)
    def test_a_prepare_that_was_killed_can_be_taken_back(
        self, harness: Harness, claim: ResourceClaim, step: CrashPoint
    ) -> None:
        with pytest.raises(ProcessDiedError):
            harness.prepare(claim, die_at=step)
        harness.unprepare(claim)
        _assert_nothing_left(harness)

    @pytest.mark.parametrize("step", UNPREPARE_STEPS)
    def test_an_unprepare_that_was_killed_is_finished_by_the_next(
        self, harness: Harness, claim: ResourceClaim, step: CrashPoint
    ) -> None:
        harness.prepare(claim)
        with pytest.raises(ProcessDiedError):
            harness.unprepare(claim, die_at=step)
        harness.unprepare(claim)
        _assert_nothing_left(harness)

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
        _assert_nothing_left(harness)

    def test_unpreparing_a_claim_that_nobody_knows_is_fine(self, harness: Harness) -> None:
        harness.unprepare("9a6c3a52-0000-4000-8000-000000000000")
        _assert_nothing_left(harness)

    def test_a_claim_can_be_unprepared_after_the_state_was_lost(
        self, harness: Harness, claim: ResourceClaim
    ) -> None:
        harness.prepare(claim)
        harness.lose_state()
        harness.unprepare(claim)
        _assert_nothing_left(harness)

    def test_a_device_is_not_prepared_for_two_claims_whatever_the_scheduler_says(
        self, harness: Harness
    ) -> None:
        key = self._device_keys(harness)[0]
        first, second = self._claim(harness, key), self._claim(harness, key)
        harness.prepare(first)
        with pytest.raises(DraError) as refused:
            harness.prepare(second)
        _assert_names_all(refused.value, first, second)
        harness.unprepare(first)
        assert harness.prepare(second).devices

    def test_a_device_that_is_half_prepared_is_not_given_to_another_claim(self, harness: Harness) -> None:
        key = self._device_keys(harness)[0]
        first, second = self._claim(harness, key), self._claim(harness, key)
        with pytest.raises(ProcessDiedError):
            harness.prepare(first, die_at=CrashPoint.PREPARE_RECORDED)
        with pytest.raises(DraError) as refused:
            harness.prepare(second)
        _assert_names_all(refused.value, first, second)

    def test_counters_are_not_overdrawn_whatever_the_scheduler_says(self, harness: Harness) -> None:
        devices = _find_overdraw(harness)
        if devices is None:
            pytest.skip("no devices of this driver overdraw a counter set together")
        self._assert_refused(harness, *devices)

    def test_incompatible_devices_are_not_prepared_together_whatever_the_scheduler_says(
        self, harness: Harness
    ) -> None:
        devices = _find_incompatible(harness)
        if devices is None:
            pytest.skip("no two devices of this driver are incompatible by their groups")
        self._assert_refused(harness, *devices)

    def _assert_refused(self, harness: Harness, prepared: Sequence[DeviceKey], other: DeviceKey) -> None:
        claims = [self._claim(harness, key) for key in prepared]
        for claim in claims:
            harness.prepare(claim)
        last = self._claim(harness, other)
        with pytest.raises(DraError) as refused:
            harness.prepare(last)
        assert last.metadata.uid not in harness.prepared()
        assert any(_mentions(refused.value, claim) for claim in claims), str(refused.value)
        for claim in claims:
            harness.unprepare(claim)
        assert harness.prepare(last).devices

    def _claim(self, harness: Harness, *keys: DeviceKey) -> ResourceClaim:
        handle = self.make_handle(keys) if self.controller_devices else None
        return harness.allocate_blindly(*keys, config=self.configs, handle=handle)

    def _device_keys(self, harness: Harness) -> list[DeviceKey]:
        return list(self.controller_devices) or [key for key, _, _ in _devices(harness)]

    def _compatible_devices(self, harness: Harness, at_most: int = 2) -> list[DeviceKey]:
        """Return up to `at_most` devices that may be in use at the same time."""
        if self.controller_devices:
            return list(self.controller_devices[:at_most])
        chosen: list[DiscoveredDevice] = []
        for each in _devices(harness):
            more = [*chosen, each]
            if len(chosen) < at_most and not _is_overdrawn(more) and not _is_incompatible(more):
                chosen = more
        return [key for key, _, _ in chosen]


def _pool_names(pools: Sequence[Pool]) -> list[tuple[str, list[str]]]:
    return [(pool.name, [device.name for device in pool.devices]) for pool in pools]


def _devices(harness: Harness) -> list[DiscoveredDevice]:
    devices = [((pool.name, each.name), each, pool) for pool in harness.discover() for each in pool.devices]
    if not devices:
        pytest.skip("the driver discovered no devices: make_driver() can return simulated hardware")
    return devices


def _find_overdraw(harness: Harness) -> tuple[list[DeviceKey], DeviceKey] | None:
    """Return devices that can be prepared together, and a device that would then overdraw a counter set."""
    chosen: list[DiscoveredDevice] = []
    for each in _devices(harness):
        more = [*chosen, each]
        if _is_incompatible(more):
            continue
        if _is_overdrawn(more):
            return [key for key, _, _ in chosen], each[0]
        chosen = more
    return None


def _find_incompatible(harness: Harness) -> tuple[list[DeviceKey], DeviceKey] | None:
    """Return two devices that have no common compatibility group, but would not overdraw a counter set."""
    for one, other in combinations(_devices(harness), 2):
        if _is_incompatible([one, other]) and not _is_overdrawn([one, other]):
            return [one[0]], other[0]
    return None


# A second, simple implementation of the rules of KEP-4815 and KEP-5963, because the node's check is under test.


def _is_overdrawn(devices: Sequence[DiscoveredDevice]) -> bool:
    consumed: Tally[tuple[str, str, str]] = Tally()
    available: dict[tuple[str, str, str], int] = {}
    for _, device, pool in devices:
        for consumption in device.consumes_counters:
            for name, counter in consumption.counters.items():
                consumed[pool.name, consumption.counter_set, name] += counter.value.nano
        for counter_set in pool.counter_sets:
            for name, counter in counter_set.counters.items():
                available[pool.name, counter_set.name, name] = counter.value.nano
    return any(amount > available.get(key, 0) for key, amount in consumed.items())


def _is_incompatible(devices: Sequence[DiscoveredDevice]) -> bool:
    groups: dict[tuple[str, str], list[set[str]]] = defaultdict(list)
    for _, device, pool in devices:
        for consumption in device.consumes_counters:
            groups[pool.name, consumption.counter_set].append(set(consumption.compatibility_groups))
    return any(any(each) and not set.intersection(*each) for each in groups.values())


def _assert_names_all(refused: DraError, *claims: ResourceClaim) -> None:
    assert all(_mentions(refused, claim) for claim in claims), str(refused)


def _mentions(refused: DraError, claim: ResourceClaim) -> bool:
    return claim.ref in str(refused) or claim.metadata.uid in str(refused)


def _assert_nothing_left(harness: Harness) -> None:
    assert harness.prepared() == {}
    assert harness.spec_files() == []
