"""Whatever a driver publishes over time, and whatever others do to its slices, no counter set is exceeded.

The publisher is a loop around pure functions. This test calls the same functions step by step, with a scheduler
that sees only published slices. Claims are released at any time, pools and devices disappear and return, other
writers change slices, and the driver restarts.
"""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.publish.holds.pinned_changes import affected_devices, pin_pool
from dradriver.publish.holds.published_counters import PublishedCounters
from tests.properties.publish.test_no_change_overdraws_a_counter_set_that_is_in_use import (
    DEVICES,
    GROUPS,
    SETS,
    allocatable,
    fits,
    observe,
    slice_of,
    taken,
)


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    """Draw devices that all consume from one counter set, and some from another one."""
    sets = draw(st.sampled_from([("s",), ("s", "t")]))
    devices = [
        Device(
            name,
            consumes_counters=[
                CounterConsumption(used, {"n": draw(st.integers(1, 4))}, draw(st.sampled_from(GROUPS)))
                for used in sets[: draw(st.integers(1, len(sets)))]
            ],
        )
        for name in draw(st.lists(st.sampled_from(DEVICES), min_size=1, unique=True))
    ]
    return Pool("pool", tuple(devices), tuple(CounterSet(s, {"n": draw(st.integers(3, 5))}) for s in sets))


class History:
    """One pool's driver, its slices on the server, and the claims that hold its devices."""

    def __init__(self) -> None:
        self.wanted = Pool("pool")
        self.server = Pool("pool")
        self.memory = PublishedCounters()
        self.held: dict[str, dict[str, CounterConsumption | None]] = {}

    def want(self, pool: Pool) -> None:
        self.wanted = pool
        self.publish()

    def publish(self) -> None:
        """Make one attempt of the publisher, as `dradriver.publish.pool_worker` does."""
        affected = affected_devices(self.wanted, self.memory)
        hold = pin_pool(self.wanted, self.memory, affected & set(self.held))
        self.memory.forget(affected - set(self.held) - {device.name for device in self.wanted.devices})
        if hold.pool is not None:
            self.server = hold.pool
            self.memory.record_stored(slice_of(hold.pool).spec)

    def vanish(self, comes_back_as: Pool) -> None:
        self.want(Pool("pool"))
        self.want(comes_back_as)

    def restart(self) -> None:
        """Start the next process: it adopts slices, and forgets devices that disappeared while held."""
        visible = {device.name for device in self.server.devices}
        self.held = {name: used for name, used in self.held.items() if name in visible}
        self.memory = observe(self.server)
        self.publish()

    def others_write(self, pool: Pool) -> None:
        """Change slices as another writer; the publisher publishes again before the next allocation."""
        self.server = pool
        self.publish()

    def allocate(self, names: Sequence[str]) -> None:
        """Allocate as many of the devices, in this order, as the slices allow beside the held ones."""
        visible = {device.name: device for device in self.server.devices}
        for name in names:
            beside = set(self.held) & set(visible)
            if name in visible and name not in self.held and allocatable(self.server, beside | {name}):
                self.held[name] = {counter_set: taken(visible[name], counter_set) for counter_set in SETS}
                self.nothing_is_overdrawn_by(name)

    def nothing_is_overdrawn_by(self, name: str) -> None:
        published = {counter_set.name: counter_set for counter_set in self.server.counter_sets}
        for counter_set in SETS:
            if self.held[name][counter_set] is not None:
                users = [used for used in (claim[counter_set] for claim in self.held.values()) if used]
                assert fits(users, published.get(counter_set)), f"{counter_set} is overdrawn: {users}"


def apply_event(data: st.DataObject, history: History) -> None:
    """Apply one of the events that the module names."""
    event = data.draw(
        st.sampled_from(["want", "want less", "vanish", "replace", "restart", "write", "clear", "delete"])
    )
    if event == "want":
        history.want(data.draw(pools()))
    elif event == "want less":
        history.want(consuming_nothing(history.wanted, data.draw(st.sets(st.sampled_from(DEVICES)))))
    elif event == "vanish":
        history.vanish(history.wanted)
    elif event == "replace":
        history.vanish(data.draw(pools()))
    elif event == "restart":
        history.restart()
    elif event == "write":
        history.others_write(data.draw(pools()))
    elif event == "clear":
        history.others_write(consuming_nothing(history.server, set(DEVICES)))
    else:
        history.others_write(Pool("pool"))


@settings(max_examples=150)
@given(st.data())
def test_no_sequence_of_events_exceeds_a_counter_set(data: st.DataObject) -> None:
    history = History()
    history.want(data.draw(pools()))
    for _ in range(data.draw(st.integers(1, 8))):
        order = data.draw(st.permutations(DEVICES))
        history.allocate(order[: data.draw(st.integers(1, len(DEVICES)))])
        apply_event(data, history)
        for name in data.draw(st.sets(st.sampled_from(DEVICES), max_size=1)) & set(history.held):
            del history.held[name]
            history.publish()
    history.allocate(DEVICES)


def consuming_nothing(pool: Pool, names: set[str]) -> Pool:
    devices = (Device(d.name) if d.name in names else d for d in pool.devices)
    return replace(pool, devices=tuple(devices))
