"""Which claim must be deallocated (KEP-3063, `deallocationRequested`)."""

from msgspec.structs import replace

from dradriver.control.classic.deallocation import choose_deallocation
from dradriver.control.runtime.actions import Evict, Release, RequestDeallocation
from dradriver.control.scheduler.pipeline import begin_cycle, list_releases
from dradriver.control.scheduler.snapshot import Cycle
from dradriver.model.classic.scheduling import SchedulingSpec
from dradriver.model.core.workload import Pod
from dradriver.testing import builders
from tests.unit.control.classic.drivers import Driver, classic_world, context_of
from tests.unit.control.classic.test_scheduler_pseudo_code import A, B, negotiate, request
from tests.unit.control.world import World


def granted(*nodes: str) -> tuple[World, Driver, Pod]:
    """Return a pod with one claim for each node, which is allocated there and reserved for the pod."""
    world, [driver] = classic_world(3, A)
    request(world, *[A] * len(nodes))
    pod = world.pod()
    for number, node in enumerate(nodes):
        driver.grant(f"default/pod-1-{number}", node, pod)
    return world, driver, pod


def choose(world: World, pod: Pod, unavailable: int, *, round_number: int = 1) -> RequestDeallocation | None:
    claims = list(world.claims.values())
    return choose_deallocation(
        pod,
        claims,
        world.records,
        unavailable={claim.metadata.uid for claim in claims[:unavailable]},
        is_refused=False,
        round_number=round_number,
    )


def test_one_claim_is_picked_randomly_and_the_same_one_in_each_attempt_of_a_round() -> None:
    world, _, pod = granted("node-1", "node-2", "node-3")
    picked = set()
    for round_number in range(50):
        first, second = (choose(world, pod, 3, round_number=round_number) for _ in range(2))
        assert first is not None
        assert first == second
        picked.add(first.claim.ref)
    assert picked == set(world.claims)


def test_only_a_claim_that_was_not_available_on_a_node_is_picked() -> None:
    world, _, pod = granted("node-1", "node-2")
    assert choose(world, pod, 0) is None
    picked = choose(world, pod, 1)
    assert picked is not None
    assert picked.claim.ref == "default/pod-1-0"


def test_a_claim_whose_deallocation_is_requested_is_not_picked_again() -> None:
    world, _, pod = granted("node-1")
    picked = choose(world, pod, 1)
    assert picked is not None
    world.apply(picked)
    assert choose(world, pod, 1) is None


def test_a_claim_without_devices_and_without_a_record_cannot_be_picked() -> None:
    world, driver, pod = granted("node-1")
    driver.devices = 0
    driver.grant("default/pod-1-0", "node-1")
    assert choose(world, pod, 1) is not None
    world.records.clear()
    assert choose(world, pod, 1) is None


def test_two_pods_that_each_have_one_of_two_claims_do_not_wait_for_each_other_forever() -> None:
    world, [a, b] = classic_world(1, A, B)
    request(world, A, B, name="pod-1")
    request(world, A, B, name="pod-2")
    a.grant("default/pod-1-0", "node-1", world.pod("pod-1"))
    b.grant("default/pod-2-1", "node-1", world.pod("pod-2"))

    def update() -> None:
        """Each driver has one resource."""
        for driver, number in ((a, 0), (b, 1)):
            holders = [f"default/pod-{pod}-{number}" for pod in (1, 2)]
            used = any(world.claims[ref].allocation is not None for ref in holders)
            driver.unsuitable = {"node-1"} if used else set()

    for _ in range(10):
        for name in ("pod-1", "pod-2"):
            for driver in (a, b):
                update()
                if f"default/{name}" in world.contexts and driver.pending(world.pod(name)):
                    driver.answer(name)
                    driver.allocate(name)
            world.settle()
            for driver in (a, b):
                driver.deallocate()
    assert sorted(bool(pod.spec.node_name) for pod in world.pods.values()) == [False, True]


def test_a_pod_whose_claim_was_deleted_selects_no_node_and_keeps_no_claim_from_other_pods() -> None:
    world, [a, b] = classic_world(1, A, B)
    request(world, A, B, name="broken")
    world.settle()
    for driver in (a, b):
        driver.answer("broken")
    world.settle()
    assert a.allocate("broken")
    assert context_of(world, "broken").spec.selected_node == "node-1"
    del world.claims["default/broken-1"]
    world.settle()
    assert a.deallocate() == ["default/broken-0"]
    world.settle()
    assert world.condition("broken").message == '0/1 nodes are available: resourceclaim "broken-1" not found.'
    assert context_of(world, "broken").spec == SchedulingSpec()
    claim = world.claims["default/broken-0"]
    assert claim.allocation is None
    assert claim.status.reserved_for == []


def test_a_pod_whose_claim_was_deleted_leaves_claims_of_other_pods_alone() -> None:
    world, [a] = classic_world(2, A)
    request(world, A, name="pod-1")
    a.grant("default/pod-1-0", "node-1", world.pod("pod-1"))
    world.add(builders.pod("pod-1-0", "missing", name="broken"))
    world.settle()
    assert world.pod("pod-1").spec.node_name == "node-1"
    assert not any(isinstance(action, RequestDeallocation) for action in world.writes)


def test_no_release_of_the_scheduler_deallocates_a_classic_claim() -> None:
    world, _, pod = granted("node-1")
    claims = dict(world.claims)
    uids = {claim.metadata.uid for claim in claims.values()}
    assert list_releases(pod, claims, (), uids) == []


def test_preemption_evicts_no_pod_for_a_classic_claim() -> None:
    world, [driver] = classic_world(1, A)
    request(world, A, name="low")
    driver.grant("default/low-0", "node-1", world.pod("low"))
    world.settle()
    assert world.pod("low").spec.node_name == "node-1"
    request(world, A, name="high")
    high = world.pod("high")
    world.pods[high.ref] = replace(high, spec=replace(high.spec, priority=1000))
    driver.unsuitable = {"node-1"}
    negotiate(world, driver)
    assert not any(isinstance(action, Evict | Release) for action in world.writes)
    assert "unsuitable" in world.condition("high").message


def test_a_pod_with_classic_claims_has_no_kind_because_answers_differ() -> None:
    world, _ = classic_world(1, A)
    request(world, A, builders.CLASS)
    pod = world.pod()
    cycle = Cycle(pod, world.snapshot(classic=world.classic_objects(pod)))
    begin_cycle(cycle)
    assert cycle.kind is None
    assert [claim.ref for claim in cycle.to_allocate] == ["default/pod-1-1"]
