"""Whatever changes while claims hold devices, the published slices never allow more than a counter set has."""

from itertools import chain, combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool, problems
from dradriver.model.resource.slices import PoolReference, ResourceSlice, ResourceSliceSpec
from dradriver.publish.holds.pinned_changes import PinnedPool, affected_devices, pin_pool
from dradriver.publish.holds.published_counters import PublishedCounters

SETS = ("s", "t", "u")
DEVICES = ("a", "b", "c", "d")
GROUPS: tuple[list[str], ...] = ([], [], [], ["g"], ["g", "h"])


@st.composite
def consumptions(draw: st.DrawFn, sets: list[str]) -> list[CounterConsumption]:
    used = draw(st.lists(st.sampled_from(sets), max_size=2, unique=True)) if sets else []
    return [
        CounterConsumption(name, {"n": draw(st.integers(1, 3))}, draw(st.sampled_from(GROUPS))) for name in used
    ]


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    sets = draw(st.lists(st.sampled_from(SETS), min_size=1, unique=True))
    names = draw(st.lists(st.sampled_from(DEVICES), min_size=1, unique=True))
    return Pool(
        "pool",
        tuple(Device(name, consumes_counters=draw(consumptions(sets))) for name in names),
        tuple(CounterSet(name, {"n": draw(st.integers(2, 5))}) for name in sets),
    )


@st.composite
def changes(draw: st.DrawFn) -> tuple[Pool, Pool, set[str]]:
    """Draw a published pool, a wanted pool that is often similar, and devices that are held."""
    old, new = draw(pools()), draw(pools())
    sets = {s.name: s for s in new.counter_sets} | {
        s.name: s for s in old.counter_sets if draw(st.sampled_from([True, True, False]))
    }
    same = {device.name: device for device in old.devices if draw(st.booleans())}
    devices = [same.get(device.name, device) for device in new.devices]
    fitting = tuple(d for d in devices if {c.counter_set for c in d.consumes_counters} <= set(sets))
    held: set[str] = set()
    for device in old.devices:
        if draw(st.booleans()) and allocatable(old, held | {device.name}):
            held.add(device.name)
    return old, Pool("pool", fitting, tuple(sets.values())), held


def observe(pool: Pool) -> PublishedCounters:
    """Return the knowledge of a process that finds the pool published."""
    return PublishedCounters([slice_of(pool)])


def slice_of(pool: Pool) -> ResourceSlice:
    reference = PoolReference(name="pool", generation=1, resource_slice_count=1)
    spec = ResourceSliceSpec(
        driver="d", pool=reference, devices=list(pool.devices), shared_counters=list(pool.counter_sets)
    )
    return ResourceSlice(metadata=ObjectMeta(name="00000-d"), spec=spec)


def taken(device: Device | None, counter_set: str) -> CounterConsumption | None:
    consumptions = device.consumes_counters if device is not None else ()
    return next((c for c in consumptions if c.counter_set == counter_set), None)


def fits(users: list[CounterConsumption], counter_set: CounterSet | None) -> bool:
    """Return whether the amounts are available and the groups are compatible (KEP-4815, KEP-5963)."""
    if not users:
        return True
    if counter_set is None:
        return False
    together = set.intersection(*(set(user.compatibility_groups or ["none"]) for user in users))
    total = sum(user.counters["n"].value.nano for user in users)
    return bool(together) and total <= counter_set.counters["n"].value.nano


def allocatable(pool: Pool, names: set[str]) -> bool:
    """Return whether a scheduler that reads this pool can allocate these devices at the same time."""
    return all(
        fits([c for d in pool.devices if d.name in names and (c := taken(d, s.name))], s)
        for s in pool.counter_sets
    )


def subsets(names: set[str]) -> list[set[str]]:
    ordered = sorted(names)
    return [
        set(some) for some in chain.from_iterable(combinations(ordered, n) for n in range(len(ordered) + 1))
    ]


def fits_published(truth: Pool, users: dict[str, CounterConsumption | None], counter_set: str) -> bool:
    """Return whether these users have the published amounts of a counter set, and fit in it."""
    known = {device.name: device for device in truth.devices}
    sets = {s.name: s for s in truth.counter_sets}
    as_published = all(taken(known.get(name), counter_set) == used for name, used in users.items())
    return as_published and fits([used for used in users.values() if used], sets.get(counter_set))


@settings(max_examples=150)
@given(changes())
def test_whatever_is_allocated_beside_the_held_devices_fits_one_of_the_two_pools(
    change: tuple[Pool, Pool, set[str]],
) -> None:
    old, new, held = change
    asked = held & affected_devices(new, observe(old))
    hold = pin_pool(new, observe(old), asked)
    assert hold == pin_pool(new, observe(old), held)
    published = hold.pool
    assert published is not None
    assert not problems(published)
    recorded = {device.name: device for device in old.devices if device.name in held}
    visible = {device.name: device for device in published.devices}
    for some in subsets(set(visible) - held):
        if not allocatable(published, some | (held & set(visible))):
            continue
        for counter_set in SETS:
            fresh = {name: taken(visible[name], counter_set) for name in some}
            if not any(fresh.values()):
                continue  # no more is taken from it than before
            users = fresh | {name: taken(device, counter_set) for name, device in recorded.items()}
            assert fits_published(old, users, counter_set) or fits_published(new, users, counter_set)


@given(pools(), pools())
def test_when_nothing_is_held_the_new_pool_is_published_whole(old: Pool, new: Pool) -> None:
    assert pin_pool(new, observe(old), ()) == PinnedPool(new)


@given(changes())
def test_what_is_kept_is_as_it_is_published(change: tuple[Pool, Pool, set[str]]) -> None:
    old, new, held = change
    hold = pin_pool(new, observe(old), held)
    assert hold.pool is not None
    visible = {device.name: device for device in hold.pool.devices}
    before = {device.name: device for device in old.devices}
    assert all(visible[name].consumes_counters == before[name].consumes_counters for name in hold.held)
    assert set(visible) >= {device.name for device in new.devices} - hold.waiting
    kept = {c.counter_set for name in hold.held for c in before[name].consumes_counters}
    beside = {d.name for d in old.devices if kept & {c.counter_set for c in d.consumes_counters}}
    stay = beside & (held | {device.name for device in new.devices})
    assert all(visible[name].consumes_counters == before[name].consumes_counters for name in stay)
