"""Whatever changes while claims hold devices, what is published lets nobody overdraw a counter set."""

from itertools import chain, combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool, problems
from dradriver.model.resource.slices import PoolReference, ResourceSlice, ResourceSliceSpec
from dradriver.publish.holds.pinned_changes import PinnedPool, affected_devices, hold_back
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
    """A published pool, one that is wanted instead and is often much the same, and devices that are held."""
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


def seen(pool: Pool) -> PublishedCounters:
    """What a process knows that finds the pool published."""
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
    """Whether the amounts are there, and the groups go together (KEP-4815, KEP-5963)."""
    if not users:
        return True
    if counter_set is None:
        return False
    together = set.intersection(*(set(user.compatibility_groups or ["none"]) for user in users))
    total = sum(user.counters["n"].value.nano for user in users)
    return bool(together) and total <= counter_set.counters["n"].value.nano


def allocatable(pool: Pool, names: set[str]) -> bool:
    """Whether a scheduler that sees this pool gives out these devices at the same time."""
    return all(
        fits([c for d in pool.devices if d.name in names and (c := taken(d, s.name))], s)
        for s in pool.counter_sets
    )


def subsets(names: set[str]) -> list[set[str]]:
    ordered = sorted(names)
    return [
        set(some) for some in chain.from_iterable(combinations(ordered, n) for n in range(len(ordered) + 1))
    ]


def holds_under(truth: Pool, users: dict[str, CounterConsumption | None], counter_set: str) -> bool:
    """Whether these users are what the pool says of that counter set, and within it."""
    known = {device.name: device for device in truth.devices}
    sets = {s.name: s for s in truth.counter_sets}
    says = all(taken(known.get(name), counter_set) == used for name, used in users.items())
    return says and fits([used for used in users.values() if used], sets.get(counter_set))


@settings(max_examples=500)
@given(changes())
def test_whatever_is_allocated_beside_the_held_devices_fits_one_of_the_two_pools(
    change: tuple[Pool, Pool, set[str]],
) -> None:
    old, new, held = change
    asked = held & affected_devices(new, seen(old))
    hold = hold_back(new, seen(old), asked)
    assert hold == hold_back(new, seen(old), held)
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
                continue  # nothing more is taken from it than there was
            users = fresh | {name: taken(device, counter_set) for name, device in recorded.items()}
            assert holds_under(old, users, counter_set) or holds_under(new, users, counter_set)


@given(pools(), pools())
def test_when_nothing_is_held_the_new_pool_is_published_whole(old: Pool, new: Pool) -> None:
    assert hold_back(new, seen(old), ()) == PinnedPool(new)


@given(changes())
def test_what_is_kept_is_as_it_is_published(change: tuple[Pool, Pool, set[str]]) -> None:
    old, new, held = change
    hold = hold_back(new, seen(old), held)
    assert hold.pool is not None
    visible = {device.name: device for device in hold.pool.devices}
    before = {device.name: device for device in old.devices}
    assert all(visible[name].consumes_counters == before[name].consumes_counters for name in hold.held)
    assert set(visible) >= {device.name for device in new.devices} - hold.waiting
    kept = {c.counter_set for name in hold.held for c in before[name].consumes_counters}
    beside = {d.name for d in old.devices if kept & {c.counter_set for c in d.consumes_counters}}
    stay = beside & (held | {device.name for device in new.devices})
    assert all(visible[name].consumes_counters == before[name].consumes_counters for name in stay)
