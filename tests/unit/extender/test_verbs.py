"""The verbs place pods as kube-scheduler's own plugin does."""

import asyncio

import pytest
from msgspec.structs import replace

from dradriver.allocator import PACKED
from dradriver.control.claims.pod_claims import consumer_of
from dradriver.control.settings import SchedulerSettings
from dradriver.extender.bind_calls import BindError
from dradriver.extender.protocol import HostPriority
from dradriver.kube import CLAIMS, EVENTS, NAMESPACES, SLICES, PatchKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import CLAIM_FINALIZER
from dradriver.testing import builders
from tests.unit.control.events import wait_for_event
from tests.unit.extender.conftest import NODES, Caller, nudged


async def test_a_pod_is_filtered_prioritized_and_bound(caller: Caller) -> None:
    pod = await caller.pod("a")
    result = await caller.filter(pod)
    assert result.node_names is not None
    assert set(result.node_names) == set(NODES)
    scores = await caller.verbs.prioritize(pod, [*result.node_names, "node-9"])
    first, second = result.node_names
    assert scores == [
        HostPriority(host=first, score=10),
        HostPriority(host=second, score=9),  # its devices are not held for the pod
        HostPriority(host="node-9"),
    ]
    await caller.bind(pod, "node-2")
    await caller.lab.until(lambda pods, _: pods[pod.ref].spec.node_name == "node-2")
    claim = caller.lab.seen.claims.items["default/claim-a"]
    assert [consumer.uid for consumer in claim.status.reserved_for] == [pod.metadata.uid]
    assert [result.pool for result in claim.results] == ["node-2"]


async def test_events_of_bindings_are_left_to_kube_scheduler(caller: Caller) -> None:
    await caller.place(await caller.pod("a"))
    assert not (await caller.lab.client.list(EVENTS, "default", into=dict)).items


async def test_pods_that_are_filtered_before_the_first_is_bound_get_their_own_devices(caller: Caller) -> None:
    pods = [await caller.pod(str(number)) for number in range(4)]
    nodes = [(await caller.filter(pod)).node_names or [] for pod in pods]
    assert not (await caller.filter(await caller.pod("late"))).node_names
    await asyncio.gather(*(caller.bind(pod, names[0]) for pod, names in zip(pods, nodes, strict=True)))
    assert len(set(caller.lab.held())) == 4


async def test_a_node_that_kube_scheduler_excluded_is_not_chosen(caller: Caller) -> None:
    result = await caller.filter(await caller.pod("a"), ["node-2"])
    assert result.node_names == ["node-2"]
    assert not result.failed_and_unresolvable_nodes


async def test_each_node_has_its_reason_and_preemption_by_kube_scheduler_cannot_help(caller: Caller) -> None:
    for number in range(2):
        pod = await caller.pod(f"first-{number}")
        await caller.filter(pod, ["node-1"])
        await caller.bind(pod, "node-1")
    claim = builders.claim(builders.device_request(count=2), name="two")
    await caller.lab.client.create(CLAIMS, claim, "default", into=dict)
    result = await caller.filter(await caller.pod_of("pair", "two"), ["node-1", "node-7"])
    assert result.node_names == []
    assert not result.failed_nodes
    reasons = result.failed_and_unresolvable_nodes
    assert "claim default/two" in reasons["node-1"]
    assert "in use" in reasons["node-1"]
    assert reasons["node-7"] == "node(s) are unknown to the extender yet"


async def test_a_missing_claim_is_reported_in_the_words_of_kube_scheduler(caller: Caller) -> None:
    pod = await caller.pod_of("a")
    lost = builders.pod("lost", name="b")
    result = await caller.filter(lost)
    assert result.failed_and_unresolvable_nodes == dict.fromkeys(NODES, 'resourceclaim "lost" not found')
    assert (await caller.filter(pod)).node_names


@pytest.mark.parametrize("settings", [SchedulerSettings(order=PACKED), SchedulerSettings()])
async def test_a_pod_without_devices_may_run_on_each_node(caller: Caller) -> None:
    await caller.bind(await caller.pod("a"), "node-1")
    pod = await caller.pod_of("plain")
    assert (await caller.filter(pod, ["node-2", "node-1"])).node_names == ["node-2", "node-1"]
    scores = await caller.verbs.prioritize(pod, ["node-2", "node-1"])
    assert {each.score for each in scores} == {0}, "only the scores of kube-scheduler count"
    await caller.bind(pod, "node-1")
    await caller.lab.until(lambda pods, _: pods[pod.ref].spec.node_name == "node-1")


async def test_a_pod_may_be_bound_to_another_node_than_the_best(caller: Caller) -> None:
    pod = await caller.pod("a")
    nodes = (await caller.filter(pod)).node_names
    assert nodes is not None
    await caller.bind(pod, nodes[1])
    (device,) = caller.lab.held()
    assert f"/{nodes[1]}/" in device


async def test_equal_calls_of_bind_share_one_result(caller: Caller) -> None:
    pod = await caller.pod("a")
    await caller.filter(pod)
    await asyncio.gather(*(caller.bind(pod, "node-1") for _ in range(3)))
    await caller.lab.until(lambda pods, _: pods[pod.ref].spec.node_name == "node-1")


async def test_a_call_of_bind_for_another_node_is_refused_while_the_pod_is_bound(caller: Caller) -> None:
    pod = await caller.pod("a")
    await caller.filter(pod)
    first = asyncio.create_task(caller.bind(pod, "node-1"))
    await asyncio.sleep(0)
    with pytest.raises(BindError, match="is being bound to node node-1"):
        await caller.bind(pod, "node-2")
    await first


async def test_a_bind_without_a_filter_makes_its_own_plan(caller: Caller) -> None:
    pod = await caller.pod("a")
    await caller.bind(pod, "node-1")
    assert len(caller.lab.held()) == 1


async def test_a_bind_to_a_node_without_free_devices_names_the_reason(caller: Caller) -> None:
    for number in range(2):
        await caller.bind(await caller.pod(str(number)), "node-1")
    late = await caller.pod("late")
    with pytest.raises(BindError, match="cannot allocate all claims"):
        await caller.bind(late, "node-1")
    assert await caller.place(late) == "node-2"


async def test_a_bind_after_the_claim_was_deleted_fails_and_frees_the_device(caller: Caller) -> None:
    pod = await caller.pod("a")
    await caller.filter(pod)
    await caller.lab.client.delete(CLAIMS, "claim-a", "default")
    await caller.lab.until(lambda _, claims: "default/claim-a" not in claims)
    with pytest.raises(BindError, match="claim-a"):
        await caller.bind(pod, "node-1")
    assert [await caller.place(await caller.pod(str(number))) for number in range(4)]


async def test_a_refused_pod_is_nudged_when_a_slice_helps(caller: Caller) -> None:
    pods = [await caller.pod(str(number)) for number in range(6)]
    for pod in pods[:4]:
        await caller.place(pod)
    for pod in pods[4:]:
        assert not (await caller.filter(pod)).node_names
    more = builders.slice_(builders.device("device-9"), node_name="node-1", pool="more")
    await caller.lab.client.create(SLICES, more, into=dict)
    await caller.lab.until(lambda pods, _: bool(nudged(pods.values())))
    (name,) = nudged(caller.lab.seen.pods.items.values())
    (other,) = {"4", "5"} - {name}
    # One device was added, so one pod was nudged, and the device is kept for it.
    assert not (await caller.filter(caller.lab.seen.pods.items[f"default/{other}"])).node_names
    assert await caller.place(caller.lab.seen.pods.items[f"default/{name}"]) == "node-1"


async def test_pods_of_other_schedulers_are_not_nudged(caller: Caller) -> None:
    mine, other = await caller.pod_of("mine", "late"), await caller.pod_of("other", "late", scheduler="other")
    for pod in (mine, other):
        assert not (await caller.filter(pod)).node_names
    await caller.lab.client.create(
        CLAIMS, builders.claim(builders.device_request(), name="late"), "default", into=dict
    )
    await caller.until_nudged("mine")
    assert nudged(caller.lab.seen.pods.items.values()) == ["mine"]


async def test_an_allocation_that_the_leader_before_wrote_late_is_reverted(caller: Caller) -> None:
    await caller.place(await caller.pod("a"))
    late = await caller.pod("late")
    await caller.lab.until(lambda _, claims: claims["default/claim-a"].allocation is not None)
    allocation = caller.lab.seen.claims.items["default/claim-a"].allocation
    for subresource, path, value in (
        ("", "/metadata/finalizers", [CLAIM_FINALIZER]),
        ("status", "/status", {"allocation": allocation, "reservedFor": [consumer_of(late)]}),
    ):
        write = [{"op": "add", "path": path, "value": value}]
        await caller.lab.client.patch(
            *(CLAIMS, "claim-late", "default", write, PatchKind.JSON), into=dict, subresource=subresource
        )
    event = await wait_for_event(caller.lab.client, "is also allocated to claim default/claim-a")
    assert event.involved_object.name == "claim-late"
    await caller.lab.until(lambda _, claims: not claims["default/claim-late"].metadata.finalizers)
    await caller.place(late)
    await caller.lab.until(lambda _pods, _claims: len(set(caller.lab.held())) == 2)


async def test_a_claim_with_admin_access_gets_devices_that_are_in_use(caller: Caller) -> None:
    for number in range(4):
        await caller.place(await caller.pod(str(number)))
    labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await caller.lab.client.patch(NAMESPACES, "default", "", labels, PatchKind.MERGE, into=dict)
    request = builders.device_request()
    assert request.exactly is not None
    watched = replace(request, exactly=replace(request.exactly, admin_access=True))
    await caller.lab.client.create(CLAIMS, builders.claim(watched, name="admin"), "default", into=dict)
    assert await caller.place(await caller.pod_of("monitor", "admin")) in NODES
    assert len(caller.lab.held()) == 5
    assert not (await caller.filter(await caller.pod("late"))).node_names


async def test_the_state_of_a_pod_is_explained_at_each_step(caller: Caller) -> None:
    def explain(pod: Pod) -> tuple[str, str]:
        state = caller.verbs.explain(pod.ref)
        return state.state, state.message

    pod, late = await caller.pod("a"), await caller.pod("late")
    assert explain(pod)[0] == "unknown"
    assert (await caller.filter(pod, ["node-1"])).node_names == ["node-1"]
    assert explain(pod) == ("nominated", "has devices on node node-1 for 10 s, until kube-scheduler binds it")
    call = asyncio.create_task(caller.bind(pod, "node-1"))
    await asyncio.sleep(0)
    assert explain(pod) == ("binding", "is being bound to node node-1")
    await call
    await caller.filter(await caller.pod("b"), ["node-1"])
    assert not (await caller.filter(late, ["node-1"])).node_names
    state, message = explain(late)
    assert state == "refused"
    assert "claim default/claim-late, request device" in message
