"""A server with a gate off: nothing unsafe is published, and the gate is reported."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.publish import PoolState
from dradriver.publish.features.dropped_fields import fields_of
from tests.e2e.bed import control_plane
from tests.e2e.bed.api_server_bed import api_server_bed
from tests.e2e.publishing.running_plugin import (
    BOUND,
    DRIVER,
    GROUPED,
    LISTED,
    PARTS,
    SHARED,
    TAINTED,
    StaticDriver,
    run_plugin,
)

WITHDRAWN, PUBLISHED, FALLBACK = PoolState.UNSAFE_WITHDRAWN, PoolState.PUBLISHED, PoolState.FALLBACK
EVENTS: Final = {WITHDRAWN: "PoolWithdrawn", PUBLISHED: "PoolFieldsDropped", FALLBACK: "PoolFallback"}
WHOLE: Final = Pool("parts", (Device("whole"),))


@dataclass(frozen=True)
class Case:
    """A gate that is off.

    Attributes:
        gate: its name.
        pool: what uses its fields.
        left: the devices that are published nevertheless.
        state: where that leaves the pool.
        fallback: what the driver offers instead.
        off: gates that can't be on without it.
    """

    gate: str
    pool: Pool
    left: frozenset[str]
    state: PoolState = WITHDRAWN
    fallback: Pool | None = None
    off: tuple[str, ...] = ()


PLAIN: Final = frozenset({"plain"})
ON_COUNTERS: Final = ("DRADeviceCompatibilityGroups", "DRAPartitionableDevicesType")
CASES: Final = (
    Case("DRAPartitionableDevices", PARTS, PLAIN, off=ON_COUNTERS),
    Case("DRAPartitionableDevices", PARTS, frozenset({"whole"}), FALLBACK, WHOLE, off=ON_COUNTERS),
    Case("DRADeviceCompatibilityGroups", GROUPED, PLAIN),
    Case("DRADeviceBindingConditions", BOUND, PLAIN),
    Case("DRADeviceTaints", TAINTED, PLAIN, off=("DRADeviceTaintRules",)),
    Case("DRAConsumableCapacity", SHARED, frozenset({"nic"}), PUBLISHED, off=("DRAFractionalCapacityRange",)),
    Case("DRAListTypeAttributes", LISTED, frozenset({"numa"}), PUBLISHED),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.gate} {case.state}")
async def test_a_pool_waits_or_falls_back_until_its_gate_is_on(case: Case, tmp_path: Path) -> None:
    on: Mapping[str, bool] = control_plane.ALL_GATES
    driver = StaticDriver(case.pool, fallback=[case.fallback] if case.fallback else None)
    with api_server_bed() as bed:
        await asyncio.to_thread(bed.serve, None, {**on, **dict.fromkeys((case.gate, *case.off), False)})
        async with run_plugin(bed, tmp_path, driver) as node:
            status = await node.wait_for_state(case.pool.name, case.state)
            assert status.dropped == {field for field in fields_of(case.pool) if field.gate == case.gate}
            assert set(await node.devices(case.pool.name)) == case.left
            (message,) = await node.wait_for_events(EVENTS[case.state])
            for field in status.dropped:
                assert str(field) in message
                labels = {"driver": DRIVER, "pool": case.pool.name, "field": field.field, "gate": case.gate}
                name = "dradriver_node_pool_dropped_field"
                assert node.plugin.metrics.registry.get_sample_value(name, labels) == 1

            await asyncio.to_thread(bed.serve, None, on)
            await node.wait_for_devices(case.pool.name, *(device.name for device in case.pool.devices))
            status = await node.wait_for_state(case.pool.name, PUBLISHED)
            assert status.dropped == frozenset()


async def test_a_dropped_claim_status_is_reported_once_and_prepare_works(tmp_path: Path) -> None:
    """The last version in which the gate can be off is 1.36."""
    granular = "DRAResourceClaimGranularStatusAuthorization"
    off = ("DRAResourceClaimDeviceStatus", "DRADeviceBindingConditions", granular)
    with api_server_bed() as bed:
        await asyncio.to_thread(bed.serve, None, dict.fromkeys(off, False), emulated_version="1.36")
        async with run_plugin(bed, tmp_path, StaticDriver(PARTS)) as node:
            await node.wait_for_state("parts", PUBLISHED)
            for number in range(2):
                assert (
                    await node.prepare(await node.allocate_claim("parts", f"part-{number}", f"claim-{number}"))
                    == ""
                )
            (message,) = await node.wait_for_events("DeviceStatusRefused")
            assert "the API server drops status.devices (DRAResourceClaimDeviceStatus)" in message


async def test_a_tainted_device_is_withdrawn_when_the_gate_is_switched_off(tmp_path: Path) -> None:
    """The server keeps the stored taint, but its scheduler ignores it."""
    with api_server_bed() as bed:
        await asyncio.to_thread(bed.serve)
        async with run_plugin(bed, tmp_path, StaticDriver(TAINTED)) as node:
            await node.wait_for_state("tainted", PUBLISHED)
            await node.wait_for_devices("tainted", "bad", "plain")
            await asyncio.to_thread(
                bed.serve, None, dict.fromkeys(("DRADeviceTaints", "DRADeviceTaintRules"), False)
            )
            await node.wait_for_devices("tainted", "plain")
            assert {field.gate for field in (await node.wait_for_state("tainted", WITHDRAWN)).dropped} == {
                "DRADeviceTaints"
            }
