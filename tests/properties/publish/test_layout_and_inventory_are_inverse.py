"""Laws of the layout: no device is lost, the order is kept, and no limit is exceeded."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dradriver.allocator.supply.pools import PoolView
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.counters import (
    MAX_COUNTER_SETS,
    MAX_SLICE_COUNTERS,
    CounterConsumption,
    CounterSet,
)
from dradriver.model.resource.device import Device, Taint
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import MAX_DEVICES, MAX_DEVICES_ADVANCED, ResourceSlice
from dradriver.publish.layout import MAX_SLICE_BYTES, layout, order_devices, refusals


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    sets = [
        CounterSet(f"set-{i}", {f"c-{j}": draw(st.integers(0, 9)) for j in range(draw(st.integers(1, 32)))})
        for i in range(draw(st.integers(0, 20)))
    ]
    kinds = [draw(_devices(sets)) for _ in range(draw(st.integers(0, 4)))]
    # Long runs of one kind, so that every limit is reached.
    runs = draw(st.lists(st.tuples(st.sampled_from(kinds), st.integers(1, 150)), max_size=4)) if kinds else []
    numbers = [kinds.index(kind) for kind, length in runs for _ in range(length)]
    devices = [replace(kinds[k], name=f"d-{i}") for i, k in enumerate(numbers)]
    return Pool("p", tuple(devices), tuple(sets))


@st.composite
def _devices(draw: st.DrawFn, sets: list[CounterSet]) -> Device:
    chosen = draw(st.lists(st.sampled_from(sets), max_size=2, unique_by=lambda s: s.name)) if sets else []
    waits = draw(st.booleans())
    return Device(
        "d",
        {"x": [1, 2]} if draw(st.booleans()) else {"x": 1},
        {},
        [CounterConsumption(s.name, {n: draw(st.integers(0, 9)) for n in s.counters}) for s in chosen],
        taints=[Taint(key="k", effect="NoSchedule")] if draw(st.booleans()) else [],
        binding_conditions=["attached"] if waits else [],
        binding_failure_conditions=["failed"] if waits else [],
    )


@settings(max_examples=60)
@given(pools())
def test_layout_then_inventory_gives_the_pool_back(pool: Pool) -> None:
    assert refusals(pool, "node") == []
    specs = layout(pool, "d.example.com", "node")
    assert [device for spec in specs for device in spec.devices] == order_devices(pool)
    assert sorted(d.name for d in order_devices(pool)) == sorted(d.name for d in pool.devices)
    assert tuple(s for spec in specs for s in spec.shared_counters) == pool.counter_sets


@settings(max_examples=60)
@given(pools())
def test_no_slice_exceeds_a_limit(pool: Pool) -> None:
    specs = layout(pool, "d.example.com", "node")
    assert {spec.pool.resource_slice_count for spec in specs} == {len(specs)}
    for spec in specs:
        assert not (spec.devices and spec.shared_counters)
        assert len(spec.shared_counters) <= MAX_COUNTER_SETS
        advanced = any(d.taints or d.consumes_counters or d.attributes["x"].ints for d in spec.devices)
        assert len(spec.devices) <= (MAX_DEVICES_ADVANCED if advanced else MAX_DEVICES)
        counters = sum(len(c.counters) for d in spec.devices for c in d.consumes_counters)
        assert counters <= MAX_SLICE_COUNTERS
        assert spec.node_name == "node"


@settings(max_examples=60)
@given(pools())
def test_the_order_of_the_driver_is_kept_and_counter_slices_are_first(pool: Pool) -> None:
    specs = layout(pool, "d.example.com", "node")
    kinds = [bool(spec.shared_counters) for spec in specs]
    assert kinds == sorted(kinds, reverse=True)
    alike: dict[str, list[int]] = {}
    for device in order_devices(pool):
        key = repr((device.consumes_counters, device.binding_conditions))
        alike.setdefault(key, []).append(int(device.name.removeprefix("d-")))
    assert all(numbers == sorted(numbers) for numbers in alike.values())


@settings(max_examples=60)
@given(pools())
def test_ready_devices_are_before_devices_with_binding_conditions(
    pool: Pool,
) -> None:
    source = [
        ResourceSlice(metadata=ObjectMeta(name=f"slice-{number:04}"), spec=spec)
        for number, spec in enumerate(layout(pool, "d.example.com", "node"))
    ]
    waits = [bool(device.device.binding_conditions) for device in PoolView(source).devices]
    assert waits == sorted(waits)


@settings(max_examples=60)
@given(st.integers(1, 40))
def test_big_devices_are_cut_by_size(count: int) -> None:
    big = {f"{'a' * 20}.example.com/attribute_{i:020}": "x" * 64 for i in range(32)}
    devices = [Device(f"d-{i}", big, {}) for i in range(count * 8)]
    specs = layout(Pool("p", tuple(devices)), "d.example.com", "node")
    size = 32 * 150
    assert all(len(spec.devices) * size <= MAX_SLICE_BYTES for spec in specs)
