"""The contested pools follow from the claims alone, whatever the order of the changes is."""

import random
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.control.extended import ClassesByResource
from dradriver.extender.other_allocators import (
    CONTESTED_POOL,
    SHARED_CLASS,
    ClaimUse,
    OtherAllocators,
    describe_use,
    describe_wait,
    find_other_scheduler,
)
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ClaimStatus, ConsumerReference, ResourceClaim
from dradriver.testing import builders
from tests.unit.control import extended_pods

OURS = frozenset({"dradriver"})
POOLS = [("d.example.com", f"pool-{number}") for number in range(4)]
CLASSES = ["a", "b", "c"]


def expected_pools(uses: Mapping[str, ClaimUse], published: set[PoolKey]) -> set[PoolKey]:
    """Return the contested pools by the definition."""
    ours = [use for use in uses.values() if use.is_ours]
    our_classes = {name for use in ours for name in use.classes}
    our_pools = {pool for use in ours for pool in use.pools}
    return {
        pool
        for use in uses.values()
        if use.allocator
        for pool in use.pools & published
        if pool in our_pools
        or any(our_classes & each.classes for each in uses.values() if each.allocator and pool in each.pools)
    }


def random_use(source: random.Random) -> ClaimUse:
    return ClaimUse(
        classes=frozenset(source.sample(CLASSES, source.randint(1, 2))),
        pools=frozenset(source.sample(POOLS, source.randint(0, 2))),
        is_ours=source.random() < 0.3,
        waiting_for=frozenset({"other"} if source.random() < 0.2 else ()),
        allocator="scheduler other" if source.random() < 0.4 else "",
    )


@pytest.mark.parametrize("seed", range(20))
def test_each_change_leads_to_the_pools_of_the_definition(seed: int) -> None:
    source = random.Random(seed)
    uses: dict[str, ClaimUse] = {}
    published = set(POOLS)
    allocators = OtherAllocators(OURS, published.__contains__)
    reported: dict[str, str] = {}
    for _ in range(100):
        before = set(allocators.contested)
        if source.random() < 0.1:
            pool = source.choice(POOLS)
            published ^= {pool}
            allocators.check_pool(pool)
        else:
            ref = f"claim-{source.randrange(8)}"
            use = random_use(source) if source.random() < 0.7 else None
            allocators.put(ref, use)
            uses.pop(ref, None)
            if use is not None:
                uses[ref] = use
        assert set(allocators.contested) == expected_pools(uses, published)
        assert allocators.reasons.keys() == allocators.contested.keys()
        assert allocators.take_pool_change() or set(allocators.contested) == before
        for name in allocators.take_changed_classes():
            reported[name] = allocators.find_reason(name)
        for name in CLASSES:
            assert reported.get(name, "") == allocators.find_reason(name)


def test_a_pool_becomes_contested_when_the_first_pod_of_ours_uses_the_class_of_its_claims() -> None:
    allocators = OtherAllocators(OURS, lambda _: True)
    theirs = ClaimUse(frozenset("a"), frozenset(POOLS[:1]), allocator="scheduler other")
    allocators.put("default/theirs", theirs)
    assert not allocators.contested
    assert not allocators.find_reason("a")
    allocators.put("default/ours", ClaimUse(frozenset("a"), is_ours=True))
    assert [*allocators.contested] == POOLS[:1]
    assert allocators.find_reason("a") == CONTESTED_POOL
    allocators.put("default/ours", None)
    assert not allocators.contested


def test_the_event_names_both_schedulers_the_pool_and_the_way_out() -> None:
    allocators = OtherAllocators(OURS, lambda _: True)
    allocators.put("default/ours", ClaimUse(frozenset("a"), is_ours=True))
    theirs = ClaimUse(frozenset("a"), frozenset(POOLS[:1]), allocator="scheduler other")
    allocators.put("default/theirs", theirs)
    assert allocators.describe("a") == (
        "resource pool d.example.com/pool-0: claim default/theirs was allocated by scheduler other, and "
        "scheduler dradriver allocates from there too. It does not while such claims exist. Use a DeviceClass "
        "for each scheduler, so that the pools of their devices differ"
    )


def test_the_notice_names_some_pools_and_each_allocator_once() -> None:
    allocators = OtherAllocators(OURS, lambda _: True)
    allocators.put("default/ours", ClaimUse(frozenset("a"), is_ours=True))
    for number, pool in enumerate(POOLS):
        use = ClaimUse(frozenset("a"), frozenset({pool}), allocator=f"scheduler other-{number % 2}")
        allocators.put(f"default/{number}", use)
    assert allocators.notice() == (
        "resource pools d.example.com/pool-0, d.example.com/pool-1, d.example.com/pool-2 and 1 more: not "
        "served, because of allocations by scheduler other-0 and scheduler other-1"
    )


def test_a_warning_needs_waiting_pods_of_both() -> None:
    allocators = OtherAllocators(OURS, lambda _: True)
    allocators.put("default/ours", ClaimUse(frozenset("a"), is_ours=True))
    allocators.put("default/theirs", ClaimUse(frozenset("b"), waiting_for=frozenset({"other"})))
    assert not allocators.find_reason("a")
    assert not allocators.find_reason("b")
    allocators.put("default/theirs", ClaimUse(frozenset("a"), waiting_for=frozenset({"other"})))
    assert allocators.find_reason("a") == SHARED_CLASS


def pod(name: str, scheduler: str, *, node: str = "", phase: str = "Pending") -> Pod:
    plain = builders.pod("claim", name=name)
    spec = replace(plain.spec, scheduler_name=scheduler, node_name=node)
    return replace(plain, spec=spec, status=replace(plain.status, phase=phase))


def allocated(*, admin: bool = False, pod_uid: str = "") -> ResourceClaim:
    claim = builders.allocated(builders.claim(builders.device_request()), "device-0")
    allocation = claim.allocation
    assert allocation is not None
    results = [replace(result, admin_access=admin or None) for result in allocation.devices.results]
    reserved = [ConsumerReference(resource="pods", name="pod", uid=pod_uid)] if pod_uid else []
    devices = replace(allocation.devices, results=results)
    status = ClaimStatus(allocation=replace(allocation, devices=devices), reserved_for=reserved)
    return replace(claim, status=status)


def test_admin_access_takes_no_device_of_a_pool() -> None:
    plain = describe_use(allocated(), (), OURS, "field manager kube-scheduler")
    admin = describe_use(allocated(admin=True), (), OURS, "field manager kube-scheduler")
    assert plain is not None
    assert admin is not None
    assert plain.pools
    assert not admin.pools


def test_the_scheduler_of_an_ended_pod_is_known_as_long_as_the_claim_is_reserved_for_it() -> None:
    theirs = pod("theirs", "other", node="node-1", phase="Succeeded")
    assert find_other_scheduler(allocated(pod_uid=theirs.metadata.uid), [theirs], OURS) == "other"
    assert find_other_scheduler(allocated(), [theirs], OURS) == ""


def test_a_claim_that_is_reserved_for_a_pod_of_ours_has_no_other_scheduler() -> None:
    ours = pod("ours", "dradriver")
    claim = allocated(pod_uid=ours.metadata.uid)
    assert find_other_scheduler(claim, [ours, pod("theirs", "other")], OURS) == ""


def test_a_pod_without_a_scheduler_belongs_to_the_default_scheduler() -> None:
    theirs = pod("theirs", "")
    claim = allocated(pod_uid=theirs.metadata.uid)
    assert find_other_scheduler(claim, [theirs], OURS) == "default-scheduler"
    use = describe_use(claim, [theirs], OURS)
    assert use is not None
    assert use.waiting_for == {"default-scheduler"}


def test_a_pod_of_another_scheduler_does_not_wait_once_it_has_a_node() -> None:
    assert describe_use(allocated(), [pod("theirs", "other", node="node-1")], OURS) is None


@pytest.mark.parametrize("scheduler", ["dradriver", "other"])
def test_pods_that_have_ended_do_not_count(scheduler: str) -> None:
    assert describe_use(builders.claim(), [pod("done", scheduler, phase="Succeeded")], OURS) is None


def test_a_pod_that_waits_for_an_extended_resource_uses_the_class_that_serves_it() -> None:
    classes = ClassesByResource.of([extended_pods.gpu_class("gpus")])
    waiting = extended_pods.pod(gpu=1, nic=1)
    ours = replace(waiting, spec=replace(waiting.spec, scheduler_name="dradriver"))
    assert describe_wait(ours, OURS, classes) == ClaimUse(classes=frozenset({"gpus"}), is_ours=True)
    expected = ClaimUse(classes=frozenset({"gpus"}), waiting_for=frozenset({"default-scheduler"}))
    assert describe_wait(waiting, OURS, classes) == expected
    placed = replace(ours, spec=replace(ours.spec, node_name="node-1"))
    assert describe_wait(placed, OURS, classes) is None
    assert describe_wait(extended_pods.pod(nic=1), OURS, classes) is None
