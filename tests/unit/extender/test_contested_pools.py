"""Pools from which another allocator allocates too are not served, as long as its claims exist."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.extender.bind_calls import BindError
from dradriver.extender.contested_pools import ContestedPoolController
from dradriver.extender.other_allocators import CONTESTED_POOL, SHARED_CLASS
from dradriver.kube import CLAIMS, CLASSES, EVENTS, PODS, SLICES, Client, PatchKind
from dradriver.model.core.workload import Pod
from dradriver.testing import builders
from tests.unit.control import extended_pods
from tests.unit.control.extended_pods import GPU
from tests.unit.extender.conftest import NODES, PROFILE, Caller

OTHER = "default-scheduler"
ANY_DEVICE = f'device.driver == "{builders.DRIVER}"'
POOL = f"{builders.DRIVER}/node-1"
REASON = f"resource pool {POOL} is not served: scheduler {OTHER} allocates its devices too"
NOTICE = f"resource pool {POOL}: not served, because of allocations by scheduler {OTHER}"


@pytest.fixture
async def kube_scheduler(caller: Caller, tmp_path: Path) -> AsyncIterator[Client]:
    """The connection of a kube-scheduler whose plugin is on."""
    agent = "kube-scheduler/v1.37.0 (linux/amd64)"
    async with await Client.connect(str(tmp_path / "kubeconfig"), user_agent=agent) as client:
        yield client


async def allocate(
    client: Client,
    name: str,
    *,
    pod_uid: str = "",
    node: str = "node-1",
    driver: str = builders.DRIVER,
) -> None:
    """Allocate device-1 of a node's pool to a claim, and reserve it for a pod.

    This scheduler allocates device-0 first, so no device is allocated twice.
    """
    result = {"request": "device", "driver": driver, "pool": node, "device": "device-1"}
    consumers = [{"resource": "pods", "name": "pod", "uid": pod_uid}] if pod_uid else []
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": consumers}
    body: Mapping[str, object] = {"status": status}
    await client.patch(*(CLAIMS, name, "default", body, PatchKind.MERGE), into=dict, subresource="status")


async def allocate_for_a_foreign_pod(
    caller: Caller, client: Client, name: str = "theirs", node: str = "node-1"
) -> None:
    pod = await caller.pod(name, scheduler=OTHER)
    await allocate(client, f"claim-{name}", pod_uid=pod.metadata.uid, node=node)


async def until(done: Callable[[], bool]) -> None:
    while not done():
        await asyncio.sleep(0.005)


async def until_noticed(caller: Caller, notice: str = NOTICE) -> None:
    await until(lambda: caller.verbs.notice == notice)


async def until_warned(caller: Caller, reason: str) -> str:
    """Wait for an event about the class, and return its message."""
    while True:
        for event in (await caller.lab.client.list(EVENTS, "default", into=dict)).items:
            if event["involvedObject"]["kind"] == CLASSES.kind and event["reason"] == reason:
                assert event["type"] == "Warning"
                return str(event["message"])
        await asyncio.sleep(0.005)


def count_contested_pools(metrics: ControlMetrics) -> float | None:
    return metrics.registry.get_sample_value("dradriver_scheduler_shared_pools", {"driver": builders.DRIVER})


async def test_a_pool_is_not_served_while_a_claim_of_another_scheduler_exists(
    caller: Caller, kube_scheduler: Client
) -> None:
    mine = await caller.pod("mine")
    await allocate_for_a_foreign_pod(caller, kube_scheduler)
    await until_noticed(caller)
    assert count_contested_pools(caller.metrics) == 1
    assert (await caller.filter(mine)).node_names == ["node-2"]
    refused = await caller.filter(mine, ["node-1"])
    assert REASON in refused.failed_and_unresolvable_nodes["node-1"]
    with pytest.raises(BindError, match=REASON):
        await caller.bind(mine, "node-1")
    await caller.lab.client.delete(CLAIMS, "claim-theirs", "default")
    await until_noticed(caller, "")
    assert count_contested_pools(caller.metrics) is None
    assert (await caller.filter(mine, ["node-1"])).node_names == ["node-1"]


async def test_a_refused_pod_is_nudged_when_the_pool_is_served_again(
    caller: Caller, kube_scheduler: Client
) -> None:
    for number in range(2):
        await caller.bind(await caller.pod(str(number)), "node-2")
    mine = await caller.pod("mine")
    await allocate_for_a_foreign_pod(caller, kube_scheduler)
    await until_noticed(caller)
    assert not (await caller.filter(mine)).node_names
    await caller.lab.client.delete(CLAIMS, "claim-theirs", "default")
    await caller.until_nudged("mine")


async def test_a_refused_pod_is_nudged_when_no_pod_of_ours_uses_the_class_of_the_other_scheduler(
    caller: Caller, kube_scheduler: Client
) -> None:
    """No claim is released then, so nothing else wakes the pod."""
    client = caller.lab.client
    for number in range(2):
        await caller.bind(await caller.pod(str(number)), "node-2")
    await client.create(CLASSES, builders.device_class("theirs.example.com", ANY_DEVICE), into=dict)
    for name in ("theirs", "ours"):
        claim = builders.claim(builders.device_request("theirs.example.com"), name=name)
        await client.create(CLAIMS, claim, "default", into=dict)
    theirs = await caller.pod_of("theirs", "theirs", scheduler=OTHER)
    await caller.pod_of("ours", "ours")
    await allocate(kube_scheduler, "theirs", pod_uid=theirs.metadata.uid)
    await until_noticed(caller)
    assert not (await caller.filter(await caller.pod("waiting"))).node_names
    await client.delete(PODS, "ours", "default")
    await caller.until_nudged("waiting")


async def test_the_pool_stays_unserved_if_only_the_pod_of_the_other_scheduler_is_gone(
    caller: Caller, kube_scheduler: Client
) -> None:
    await caller.pod("mine")
    await allocate_for_a_foreign_pod(caller, kube_scheduler)
    await until_noticed(caller)
    await caller.lab.client.delete(PODS, "theirs", "default")
    # Only a pod that was created later shows which scheduler has allocated the other pool.
    await allocate_for_a_foreign_pod(caller, kube_scheduler, "next", node="node-2")
    await until_noticed(caller, NOTICE.replace(f"resource pool {POOL}", f"resource pools {POOL}, {POOL[:-1]}2"))


async def test_an_event_of_the_class_reports_the_pool(caller: Caller, kube_scheduler: Client) -> None:
    await caller.pod("mine")
    await allocate_for_a_foreign_pod(caller, kube_scheduler)
    message = await until_warned(caller, CONTESTED_POOL)
    assert message.startswith(f"resource pool {POOL}: claim default/claim-theirs was allocated by ")


async def test_a_plan_with_a_device_of_the_pool_is_not_written(caller: Caller, kube_scheduler: Client) -> None:
    mine = await caller.pod("mine")
    assert (await caller.filter(mine, ["node-1"])).node_names == ["node-1"]
    await allocate_for_a_foreign_pod(caller, kube_scheduler)
    await until_noticed(caller)
    with pytest.raises(BindError) as caught:
        await caller.bind(mine, "node-1")
    assert str(caught.value) == REASON
    assert caller.lab.seen.claims.items["default/claim-mine"].allocation is None


async def test_an_allocation_with_another_field_manager_counts_for_pods_of_this_scheduler_too(
    caller: Caller, kube_scheduler: Client
) -> None:
    """A kube-scheduler has a profile with the name of ours, but its plugin is on."""
    mine = await caller.pod("mine")
    await allocate(kube_scheduler, "claim-mine", pod_uid=mine.metadata.uid)
    await until_noticed(caller, NOTICE.replace(f"scheduler {OTHER}", "field manager kube-scheduler"))


async def test_an_allocation_of_an_earlier_leader_does_not_count(
    caller: Caller, kube_scheduler: Client
) -> None:
    """Its last write arrives late. It has the same field manager."""
    mine, late = await caller.pod("mine"), await caller.pod("late")
    await allocate(caller.lab.client, "claim-late", pod_uid=late.metadata.uid, node="node-2")
    await allocate(kube_scheduler, "claim-mine", pod_uid=mine.metadata.uid)
    # Claims are read in the order of their allocations, so the late one has been read.
    await until_noticed(caller, NOTICE.replace(f"scheduler {OTHER}", "field manager kube-scheduler"))


async def test_a_second_scheduler_with_our_field_manager_is_found_by_its_pods(caller: Caller) -> None:
    await caller.pod("mine")
    await allocate_for_a_foreign_pod(caller, caller.lab.client)
    await until_noticed(caller)


async def test_claims_that_this_process_has_allocated_are_not_read_again(
    caller: Caller, kube_scheduler: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    async def find_manager(_: ContestedPoolController, ref: str) -> None:
        read.append(ref)

    monkeypatch.setattr(ContestedPoolController, "_find_manager", find_manager)
    pods = [await caller.pod(str(number)) for number in range(2)]
    await asyncio.gather(*(caller.bind(pod, "node-2") for pod in pods))
    await caller.bind(await caller.pod_of("second", "claim-0"), "node-2")
    await caller.pod("late")
    await allocate(kube_scheduler, "claim-late")
    await until(lambda: bool(read))
    assert read == ["default/claim-late"]


async def test_allocations_from_before_this_process_leads_do_not_count(
    caller: Caller, kube_scheduler: Client
) -> None:
    await caller.pod("mine")
    await allocate_for_a_foreign_pod(caller, kube_scheduler)
    await until_noticed(caller)
    await caller.restart()
    assert caller.verbs.notice == ""
    await allocate_for_a_foreign_pod(caller, kube_scheduler, "later", node="node-2")
    await until_noticed(caller, NOTICE.replace("node-1", "node-2"))


async def test_pools_of_classic_controllers_do_not_count_until_a_slice_publishes_them(
    caller: Caller, kube_scheduler: Client
) -> None:
    await caller.pod("mine")
    theirs = await caller.pod("theirs", scheduler=OTHER)
    driver = "classic.example.com"
    await allocate(kube_scheduler, "claim-theirs", pod_uid=theirs.metadata.uid, driver=driver)
    await allocate_for_a_foreign_pod(caller, kube_scheduler, "published")
    await until_noticed(caller)
    await caller.lab.client.delete(CLAIMS, "claim-published", "default")
    await until_noticed(caller, "")
    published = builders.slice_(builders.device("device-1"), driver=driver, pool="node-1")
    await caller.lab.client.create(SLICES, published, into=dict)
    await until_noticed(caller, NOTICE.replace(builders.DRIVER, driver))
    await caller.lab.client.delete(SLICES, published.metadata.name)
    await until_noticed(caller, "")


async def test_schedulers_with_classes_and_pools_of_their_own_do_not_disturb_each_other(
    caller: Caller, kube_scheduler: Client
) -> None:
    client = caller.lab.client
    await client.create(CLASSES, builders.device_class("theirs.example.com"), into=dict)
    published = builders.slice_(builders.device("device-1"), driver="theirs.example.com", pool="node-1")
    await client.create(SLICES, published, into=dict)
    claim = builders.claim(builders.device_request("theirs.example.com"), name="claim-apart")
    await client.create(CLAIMS, claim, "default", into=dict)
    apart = await caller.pod_of("apart", "claim-apart", scheduler=OTHER)
    mine = await caller.pod("mine")
    await allocate(kube_scheduler, "claim-apart", pod_uid=apart.metadata.uid, driver="theirs.example.com")
    await allocate_for_a_foreign_pod(caller, kube_scheduler)
    await until_noticed(caller)  # only the pool of both: the other pool was found earlier
    await client.delete(CLAIMS, "claim-theirs", "default")
    await until_noticed(caller, "")
    assert (await caller.filter(mine)).node_names


async def test_two_classes_with_devices_of_one_pool_share_it(caller: Caller, kube_scheduler: Client) -> None:
    await caller.bind(await caller.pod("mine"), "node-1")
    await caller.lab.client.create(CLASSES, builders.device_class("theirs.example.com", ANY_DEVICE), into=dict)
    claim = builders.claim(builders.device_request("theirs.example.com"), name="claim-theirs")
    await caller.lab.client.create(CLAIMS, claim, "default", into=dict)
    theirs = await caller.pod_of("theirs", "claim-theirs", scheduler=OTHER)
    await allocate(kube_scheduler, "claim-theirs", pod_uid=theirs.metadata.uid)
    await until_noticed(caller)


async def test_waiting_pods_of_two_schedulers_for_one_class_are_only_a_warning(caller: Caller) -> None:
    mine = await caller.pod("mine")
    await caller.pod("theirs", scheduler=OTHER)
    assert await until_warned(caller, SHARED_CLASS) == (
        f"pods of the schedulers {PROFILE} and {OTHER} use this class. If both allocate devices of one pool, "
        "two claims can get one device. Use a DeviceClass for each scheduler, so that the pools of their "
        "devices differ"
    )
    assert caller.verbs.notice == ""
    assert set((await caller.filter(mine)).node_names or ()) == set(NODES)


async def create_extended_pod(caller: Caller, name: str = "mine", scheduler: str = PROFILE) -> Pod:
    """Create a pod that requests one device of the class as an extended resource, without a claim."""
    pod = extended_pods.pod(name, gpu=1)
    return await caller.add(replace(pod, spec=replace(pod.spec, scheduler_name=scheduler)))


async def serve_extended_resource(caller: Caller, *, resource: str | None = GPU) -> None:
    spec = {"spec": {"extendedResourceName": resource}}
    await caller.lab.client.patch(CLASSES, builders.CLASS, "", spec, PatchKind.MERGE, into=dict)


async def test_a_pool_is_contested_if_our_pods_only_wait_for_extended_resources_of_the_class(
    caller: Caller, kube_scheduler: Client
) -> None:
    """No ResourceClaim of our pods names the class: a special claim exists only from `bind` on (KEP-5004)."""
    await serve_extended_resource(caller)
    mine = await create_extended_pod(caller)
    await allocate_for_a_foreign_pod(caller, kube_scheduler)
    await until_noticed(caller)
    assert (await caller.filter(mine, ["node-1"])).node_names == []
    await caller.lab.client.delete(PODS, "mine", "default")
    await until_noticed(caller, "")


async def test_a_pool_is_contested_while_the_class_serves_the_extended_resource(
    caller: Caller, kube_scheduler: Client
) -> None:
    await create_extended_pod(caller)
    await allocate_for_a_foreign_pod(caller, kube_scheduler)
    await serve_extended_resource(caller)
    await until_noticed(caller)
    await serve_extended_resource(caller, resource=None)
    await until_noticed(caller, "")


async def test_the_pool_is_served_again_when_the_pod_with_the_special_claim_has_ended(
    caller: Caller, kube_scheduler: Client
) -> None:
    await serve_extended_resource(caller)
    mine = await create_extended_pod(caller)
    await caller.place(mine, ["node-1"])
    await allocate_for_a_foreign_pod(caller, kube_scheduler)
    await until_noticed(caller)
    ended = {"status": {"phase": "Succeeded"}}
    client = caller.lab.client
    await client.patch(PODS, "mine", "default", ended, PatchKind.MERGE, into=dict, subresource="status")
    await until_noticed(caller, "")


async def test_pods_of_two_schedulers_that_wait_for_one_extended_resource_are_a_warning(caller: Caller) -> None:
    await serve_extended_resource(caller)
    await create_extended_pod(caller)
    await create_extended_pod(caller, "theirs", OTHER)
    assert (await until_warned(caller, SHARED_CLASS)).startswith(
        f"pods of the schedulers {PROFILE} and {OTHER} use this class."
    )


def after(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


BY_MANAGER = NOTICE.replace(f"scheduler {OTHER}", "field manager kube-scheduler")


async def test_an_allocation_of_another_field_manager_since_the_installation_counts_after_a_restart(
    caller: Caller, kube_scheduler: Client
) -> None:
    caller.installed = after(-60)
    mine = await caller.pod("mine")
    await allocate(kube_scheduler, "claim-mine", pod_uid=mine.metadata.uid)
    await caller.restart()
    await until_noticed(caller, BY_MANAGER)
    assert (await caller.filter(await caller.pod("late"), ["node-1"])).node_names == []
    await caller.lab.client.delete(CLAIMS, "claim-mine", "default")
    await until_noticed(caller, "")


async def test_the_scheduler_of_the_pod_is_named_after_a_restart(
    caller: Caller, kube_scheduler: Client
) -> None:
    caller.installed = after(-60)
    await caller.pod("mine")
    await allocate_for_a_foreign_pod(caller, kube_scheduler)
    await caller.restart()
    await until_noticed(caller)


async def test_an_allocation_from_before_the_installation_does_not_count(
    caller: Caller, kube_scheduler: Client
) -> None:
    """Workloads that move to this scheduler in a rolling update must not wait for their old pods."""
    await caller.pod("mine")
    await allocate_for_a_foreign_pod(caller, kube_scheduler)
    caller.installed = after(60)
    await caller.restart()
    # Keys are decided in order, so the earlier claims have been read before the event about the class.
    await caller.pod("waiting", scheduler=OTHER)
    await until_warned(caller, SHARED_CLASS)
    assert caller.verbs.notice == ""


async def test_a_claim_of_an_earlier_leader_that_pods_of_another_scheduler_share_does_not_count(
    caller: Caller,
) -> None:
    caller.installed = after(-60)
    mine = await caller.pod("mine")
    await caller.bind(mine, "node-1")
    theirs = await caller.pod_of("theirs", "claim-mine", scheduler=OTHER)
    users = [{"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid} for pod in (mine, theirs)]
    shared = {"status": {"reservedFor": users}}
    client = caller.lab.client
    await client.patch(
        CLAIMS, "claim-mine", "default", shared, PatchKind.MERGE, into=dict, subresource="status"
    )
    await caller.restart()
    await caller.pod("waiting", scheduler=OTHER)
    await until_warned(caller, SHARED_CLASS)
    assert caller.verbs.notice == ""


async def test_contested_pools_and_shared_classes_are_signs_of_a_second_allocator(
    caller: Caller, kube_scheduler: Client
) -> None:
    await caller.pod("mine")
    assert caller.verbs.second_allocator == ""
    await caller.pod("waiting", scheduler=OTHER)
    shared = f"pods of other schedulers also use device class {builders.CLASS}"
    await until(lambda: caller.verbs.second_allocator == shared)
    await allocate_for_a_foreign_pod(caller, kube_scheduler)
    await until(lambda: caller.verbs.second_allocator == f"{NOTICE}; {shared}")
