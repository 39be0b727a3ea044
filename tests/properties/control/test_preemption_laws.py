"""Laws of preemption on small clusters, compared with all other choices of victims."""

from collections.abc import Collection
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dradriver.control.claims.pod_claims import used_names
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import Plan, Unschedulable
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.testing import builders
from tests.unit.control.running_pods import budget, leave, pending, run, share, with_priority
from tests.unit.control.world import World

PRIORITY = 2
NODES = ("node-1", "node-2")


@dataclass(frozen=True)
class Claimed:
    """A claim for devices of a node, and its pods.

    Attributes:
        devices: the devices.
        pods: the pods that run, each with its priority and whether it is leaving.
        waiting: the priorities of pods that name the claim and wait for a node.
    """

    devices: tuple[str, ...]
    pods: tuple[tuple[int, bool], ...]
    waiting: tuple[int, ...] = ()


@dataclass(frozen=True)
class Case:
    """A cluster and a pod that may preempt.

    Attributes:
        nodes: the claims of each node.
        count: the number of devices that the pod needs.
        allowed: the disruptions that budgets allow, for the pods of the apps 0 and 1.
        shared: the number of the claim that the pod uses too; None if it shares no claim.
    """

    nodes: tuple[tuple[Claimed, ...], ...]
    count: int
    allowed: tuple[int, ...] = field(default=())
    shared: int | None = None


# Each node has two whole devices of two slices of a counter set, and the four halves of them.
DEVICES = ("half-0", "half-1", "half-2", "half-3", "whole-0", "whole-1")


@st.composite
def claimed(draw: st.DrawFn) -> tuple[Claimed, ...]:
    free = draw(st.permutations(["0", "1"]))
    made = []
    for card in free:
        halves = [f"half-{int(card) * 2 + n}" for n in (0, 1)]
        choices: list[list[tuple[str, ...]]] = [
            [(f"whole-{card}",)],
            [(halves[0],), (halves[1],)],
            [(halves[1],)],
            [tuple(halves)],
            [],
        ]
        for devices in draw(st.sampled_from(choices)):
            pods = draw(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=2))
            waiting = draw(st.lists(st.integers(0, 3), max_size=1))
            made.append(Claimed(devices, tuple(pods), tuple(waiting)))
    return tuple(made)


cases = st.builds(
    Case,
    nodes=st.tuples(claimed(), claimed()),
    count=st.integers(1, 3),
    allowed=st.lists(st.integers(0, 1), max_size=2).map(tuple),
    shared=st.none() | st.integers(0, 7),
)


def card_device(name: str) -> Device:
    kind, number = name.split("-")
    card = int(number) if kind == "whole" else int(number) // 2
    taken = CounterConsumption(f"card-{card}", {"slices": 2 if kind == "whole" else 1})
    return Device(name, consumes_counters=[taken])


def build(case: Case) -> World:
    world = World()
    world.add(builders.device_class())
    sets = [CounterSet(f"card-{card}", {"slices": 2}) for card in (0, 1)]
    for number, node in enumerate(NODES):
        world.add(builders.node(node))
        world.add(builders.slice_(*map(card_device, DEVICES), node_name=node, count=2, name=f"{node}-devices"))
        world.add(builders.slice_(node_name=node, count=2, counter_sets=sets, name=f"{node}-counters"))
        for index, each in enumerate(case.nodes[number]):
            name = f"pod-{number}-{index}"
            (priority, is_leaving), *others = each.pods
            run(world, name, *each.devices, node=node, priority=priority, started=index, app=str(index % 2))
            names = [name]
            for other, (other_priority, _) in enumerate(others):
                names.append(f"{name}-{other}")
                share(world, names[-1], name, node=node, priority=other_priority)
            for pod_name, (_, is_leaving) in zip(names, each.pods, strict=True):
                if is_leaving:
                    leave(world, pod_name)
            for waiting in each.waiting:
                world.add(with_priority(builders.pod(name, name=f"{name}-waiting"), waiting))
    world.add(*[budget(f"budget-{app}", str(app), allowed) for app, allowed in enumerate(case.allowed)])
    return world


def add_preempting(world: World, case: Case) -> Pod:
    """Add the pod that may preempt."""
    claims = [claim.metadata.name for claim in world.claims.values()]
    pod = pending(world, priority=PRIORITY, count=case.count)
    if case.shared is not None and claims:
        shared = builders.pod("high", claims[case.shared % len(claims)], name="high")
        pod = replace(pod, spec=replace(shared.spec, priority=PRIORITY))
        world.add(pod)
    return pod


def without(world: World, refs: Collection[str]) -> World:
    """Return the cluster after pods have left, and after the claims that only they used were released.

    A pod that waits uses its claims unless its priority is lower.
    """
    left = World(nodes=world.nodes, slices=world.slices, classes=world.classes)
    left.pods = {ref: pod for ref, pod in world.pods.items() if ref not in refs}
    users = [pod for pod in left.pods.values() if pod.spec.node_name or pod.priority >= PRIORITY]
    used = {claim for pod in users for claim in used_names(pod)}
    left.claims = {ref: claim for ref, claim in world.claims.items() if ref in used or ref == "default/high"}
    return left


def fits(world: World, pod: Pod, refs: Collection[str], node: str) -> bool:
    left = without(world, refs)
    return isinstance(schedule(pod, left.snapshot(nodes=(node,))), Plan)


def allocations(world: World) -> list[ResourceClaim]:
    return [claim for claim in world.claims.values() if claim.allocation is not None]


@settings(max_examples=60, deadline=None)
@given(cases)
def test_victims_are_of_lower_priority_sufficient_and_necessary(case: Case) -> None:
    world = build(case)
    pod = add_preempting(world, case)
    verdict = schedule(pod, world.snapshot(), preempts=True)
    leaving = {ref for ref, each in world.pods.items() if each.metadata.deletion_timestamp is not None}
    if isinstance(verdict, Plan):
        assert fits(world, pod, (), verdict.node)
        return
    lower = {ref for ref, each in world.pods.items() if each.spec.node_name and each.priority < PRIORITY}
    if verdict.preemption is None:
        assert not lower or not any(fits(world, pod, lower | leaving, node) for node in NODES)
        return
    node, victims = verdict.preemption.node, {victim.ref for victim in verdict.preemption.victims}
    assert all(world.pods[ref].priority < PRIORITY for ref in victims)
    assert not victims & leaving
    own = set(used_names(pod))
    assert all(set(used_names(world.pods[ref])) - own for ref in victims), (
        "the pod uses the victim's claim, too"
    )
    assert fits(world, pod, leaving | victims, node)
    for spared in victims:
        assert not fits(world, pod, (leaving | victims) - {spared}, node)
    if victims:
        assert not any(fits(world, pod, leaving, each) for each in NODES)
    protecting = {str(app) for app, allowed in enumerate(case.allowed) if not allowed}
    protected = {ref for ref, each in world.pods.items() if each.metadata.labels.get("app") in protecting}
    if victims & protected:
        assert not fits(world, pod, leaving | (lower - protected), node)


@settings(max_examples=30, deadline=None)
@given(cases, st.integers(0, 3))
def test_a_nominated_pod_gets_its_devices_after_its_victims_left(case: Case, priority: int) -> None:
    """Whatever a pod of lower or equal priority got in the meantime."""
    world = build(case)
    pod = add_preempting(world, case)
    verdict = schedule(pod, world.snapshot(), preempts=True)
    if not isinstance(verdict, Unschedulable) or verdict.preemption is None:
        return
    node = verdict.preemption.node
    world.change("high", nominated_node_name=node)
    pod = world.pod("high")
    other = pending(world, priority=min(priority, PRIORITY), name="other")
    plan = schedule(other, world.snapshot())
    left = without(
        world,
        {victim.ref for victim in verdict.preemption.victims}
        | {ref for ref, each in world.pods.items() if each.metadata.deletion_timestamp is not None},
    )
    left.pods.pop(other.ref)
    if isinstance(plan, Plan):
        left.claims[other.ref] = world.claims[other.ref]
        left.pods[other.ref] = other
        left.plans[other.ref] = plan
    assert isinstance(schedule(pod, left.snapshot(nodes=(node,))), Plan)
    assert replace(pod, status=world.pod("high").status) == world.pod("high")
