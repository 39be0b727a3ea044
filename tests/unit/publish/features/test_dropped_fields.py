"""Dropped fields are detected by comparing the sent and the stored slice; only the safe part stays."""

from typing import Literal

import pytest

from dradriver.model.quantity import Quantity
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Capacity, CapacityRequestPolicy, Device, Taint
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import PoolReference, ResourceSliceSpec
from dradriver.publish.features.dropped_fields import (
    BINDING,
    BINDS_TO_NODE,
    CONSUMES_COUNTERS,
    GROUPS,
    LISTS,
    MULTIPLE,
    PER_DEVICE_NODES,
    REQUEST_POLICY,
    SHARED_COUNTERS,
    TAINTS,
    DroppedField,
    dropped_fields,
    fields_of,
    guarding_fields,
    refused_fields,
    safe_part,
)

SET = CounterSet("gpu", {"memory": 4})
CONSUMES = [CounterConsumption("gpu", {"memory": 1})]
GROUPED = [CounterConsumption("gpu", {"memory": 1}, ["mig"])]
POLICY = CapacityRequestPolicy(default=Quantity(1))
PLAIN = Device("a")


def spec(*devices: Device, counters: bool = False, per_device: bool | None = None) -> ResourceSliceSpec:
    reference = PoolReference(name="p", generation=1, resource_slice_count=1)
    return ResourceSliceSpec(
        driver="d",
        pool=reference,
        devices=list(devices),
        shared_counters=[SET] if counters else [],
        per_device_node_selection=per_device,
    )


@pytest.mark.parametrize(
    ("sent", "stored", "field"),
    [
        (spec(counters=True), spec(), SHARED_COUNTERS),
        (spec(per_device=True), spec(), PER_DEVICE_NODES),
        (spec(Device("a", consumes_counters=CONSUMES)), spec(PLAIN), CONSUMES_COUNTERS),
        (spec(Device("a", consumes_counters=GROUPED)), spec(Device("a", consumes_counters=CONSUMES)), GROUPS),
        (spec(Device("a", binding_conditions=["x"])), spec(PLAIN), BINDING),
        (spec(Device("a", binds_to_node=True)), spec(PLAIN), BINDS_TO_NODE),
        (spec(Device("a", taints=[Taint(key="k", effect="None")])), spec(PLAIN), TAINTS),
        (spec(Device("a", allow_multiple_allocations=True)), spec(PLAIN), MULTIPLE),
        (
            spec(Device("a", {}, {"m": Capacity(Quantity(1), POLICY)})),
            spec(Device("a", {}, {"m": 1})),
            REQUEST_POLICY,
        ),
        (spec(Device("a", {"x": [1]})), spec(PLAIN), LISTS),
    ],
    ids=lambda value: value.field if isinstance(value, DroppedField) else "",
)
def test_each_dropped_field_is_detected(
    sent: ResourceSliceSpec, stored: ResourceSliceSpec, field: DroppedField
) -> None:
    assert dropped_fields(sent, stored) == {field}
    assert dropped_fields(sent, sent) == set()


def test_groups_of_dropped_counters_do_not_count_as_dropped() -> None:
    sent, stored = spec(Device("a", consumes_counters=GROUPED)), spec(PLAIN)
    assert dropped_fields(sent, stored) == {CONSUMES_COUNTERS}


def test_a_rejection_is_explained_by_a_used_field() -> None:
    partition = spec(Device("a", consumes_counters=CONSUMES))
    path = (
        "spec.devices[0].consumesCounters[0].counterSet"  # Kubernetes 1.34 requires the set in the same slice
    )
    assert refused_fields(partition, [path]) == {CONSUMES_COUNTERS}
    assert refused_fields(partition, ["spec.devices[0].basic.consumesCounters[0]"]) == {CONSUMES_COUNTERS}
    assert refused_fields(spec(per_device=True), ["spec"]) == {PER_DEVICE_NODES}
    assert refused_fields(spec(Device("a", {"x": [1]})), ["spec.devices[0].attributes[x]"]) == {LISTS}
    assert refused_fields(spec(PLAIN), ["spec.devices[0].attributes[x]"]) == set()
    assert refused_fields(partition, ["spec.driver"]) == set()


def test_guarding_fields_are_those_of_the_keps() -> None:
    all_fields = {
        SHARED_COUNTERS, PER_DEVICE_NODES, CONSUMES_COUNTERS, GROUPS, BINDING, BINDS_TO_NODE, TAINTS, MULTIPLE,
        REQUEST_POLICY, LISTS,
    }  # fmt: skip
    assert guarding_fields(all_fields) == {
        SHARED_COUNTERS,
        PER_DEVICE_NODES,
        CONSUMES_COUNTERS,
        GROUPS,
        BINDING,
    }


@pytest.mark.parametrize("field", [SHARED_COUNTERS, CONSUMES_COUNTERS, GROUPS, BINDING])
def test_the_safe_part_does_not_use_the_dropped_field(field: DroppedField) -> None:
    pool = Pool(
        "p",
        (
            Device("grouped", consumes_counters=GROUPED),
            Device("bound", binding_conditions=["x"], binding_failure_conditions=["y"]),
            PLAIN,
        ),
        (SET,),
    )
    part = safe_part(pool, {field})
    assert part is not None
    assert field not in fields_of(part)
    assert PLAIN in part.devices


def test_per_device_node_selection_has_no_safe_part_without_its_field() -> None:
    pool = Pool("p", (Device("a", all_nodes=True),), per_device_node_selection=True)
    assert safe_part(pool, {PER_DEVICE_NODES}) is None


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_device_whose_taint_keeps_claims_away_is_omitted(effect: Literal["NoSchedule", "NoExecute"]) -> None:
    part = safe_part(Pool("p", (Device("a", taints=[Taint(key="k", effect=effect)]), PLAIN)), {TAINTS})
    assert part is not None
    assert part.devices == (PLAIN,)


def test_harmless_fields_are_removed_from_the_device() -> None:
    device = Device(
        "a",
        {"x": [1], "y": 1},
        {"m": Capacity(Quantity(1), POLICY)},
        binds_to_node=True,
        taints=[Taint(key="k", effect="None")],
        allow_multiple_allocations=True,
    )
    part = safe_part(Pool("p", (device,)), {LISTS, REQUEST_POLICY, BINDS_TO_NODE, TAINTS, MULTIPLE})
    assert part is not None
    assert part.devices == (Device("a", {"y": 1}, {"m": 1}),)
