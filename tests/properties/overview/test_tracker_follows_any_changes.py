"""An overview that followed changes equals one that is computed at once."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dradriver.model.core.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.slices import ResourceSlice
from dradriver.overview import Overview, OverviewTracker
from dradriver.testing.builders import DRIVER, allocated, claim, node, slice_
from tests.unit.overview.objects import NOW, apply, health_of, overview, pod_of, rule

_DEVICES = ("a", "b", "c")
_NODES = ("node-1", "node-2")


def _counted(generation: int, node_name: str) -> ResourceSlice:
    counters = [CounterSet("set", {"memory": 2, "part-0": 1, "part-1": 1})]
    return slice_(
        counter_sets=counters, name=f"{node_name}-counters", node_name=node_name, generation=generation, count=2
    )


def _devices(generation: int, node_name: str, count: int) -> ResourceSlice:
    devices = [
        Device(name, consumes_counters=[CounterConsumption("set", {"memory": 1, f"part-{at % 2}": 1})])
        for at, name in enumerate(_DEVICES)
    ]
    return slice_(
        *devices[:count], name=f"{node_name}-devices", node_name=node_name, generation=generation, count=2
    )


def _shared(host: str) -> ResourceSlice:
    requirement = NodeSelectorRequirement("host", "In", [host])
    selector = NodeSelector([NodeSelectorTerm(match_expressions=[requirement])])
    published = slice_(Device("a"), Device("b"), pool="shared", name="shared")
    return replace(published, spec=replace(published.spec, node_name=None, node_selector=selector))


def _held(name: str, devices: Sequence[str], node_name: str) -> ResourceClaim:
    pending = claim(name=name)
    pending = replace(pending, metadata=replace(pending.metadata, uid=name))
    return allocated(pending, *devices, node_name=node_name) if devices else pending


def _objects() -> st.SearchStrategy[Any]:
    nodes, generations = st.sampled_from(_NODES), st.integers(1, 2)
    words = st.sampled_from(("Healthy", "Unhealthy"))
    names = st.sampled_from(("x", "y"))
    return st.one_of(
        st.builds(_counted, generations, nodes),
        st.builds(_devices, generations, nodes, st.integers(0, 3)),
        st.builds(_shared, st.sampled_from(("1", "2"))),
        st.builds(
            _held, names, st.lists(st.sampled_from(_DEVICES), unique=True), st.sampled_from((*_NODES, "shared"))
        ),
        st.builds(lambda name, host: node(name, host=host), nodes, st.sampled_from(("1", "2"))),
        st.builds(lambda device: rule("r", "t:NoSchedule", device=device), st.sampled_from(_DEVICES)),
        st.builds(
            lambda name, word, phase: pod_of(
                name,
                name=f"pod-{name}",
                phase=phase,
                containerStatuses=[health_of(name, **{f"{DRIVER}/node-1/a": word})],
            ),
            names,
            words,
            st.sampled_from(("Pending", "Running")),
        ),
    )


def _comparable(shown: Overview) -> object:
    """What does not depend on the way to this state."""
    return dict(shown.nodes), list(shown.nodes), shown.reaches, shown.waiting, shown.problems


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(_objects(), st.booleans(), st.booleans()), max_size=25))
def test_an_overview_that_followed_changes_equals_one_that_is_computed_at_once(
    steps: list[tuple[Any, bool, bool]],
) -> None:
    tracker, present = OverviewTracker(), dict[tuple[type, str], Any]()
    for wanted, is_deleted, is_computed in steps:
        key = type(wanted), wanted.metadata.name
        old, new = present.pop(key, None), None if is_deleted else wanted
        if new is not None:
            present[key] = new
        if old is not None or new is not None:
            apply(tracker, old, new)
        if is_computed:
            before = _comparable(tracker.overview)
            update = tracker.update(NOW)
            assert bool(update) or _comparable(tracker.overview) == before
    tracker.update(NOW)
    assert _comparable(tracker.overview) == _comparable(overview(*present.values()))
