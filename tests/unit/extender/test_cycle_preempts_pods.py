"""A pod that `filter` refuses evicts pods of lower priority, on the nodes that kube-scheduler accepts."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from dradriver.errors import DraError
from dradriver.extender.protocol import MetaPod, MetaVictims
from dradriver.kube import CLAIMS, PODS, PatchKind
from dradriver.model.core.workload import Pod
from dradriver.testing import builders
from tests.unit.extender.conftest import PROFILE, Caller
from tests.unit.extender.test_cycle_nudges_pods import until_processed


async def add(caller: Caller, name: str, priority: int) -> Pod:
    await add_claim(caller, name)
    return await add_pod(caller, name, priority)


async def add_claim(caller: Caller, name: str) -> None:
    claim = builders.claim(builders.device_request(count=2), name=f"claim-{name}")
    await caller.lab.client.create(CLAIMS, claim, "default", into=dict)


async def add_pod(caller: Caller, name: str, priority: int) -> Pod:
    pod = builders.pod(f"claim-{name}", name=name)
    spec = replace(pod.spec, scheduler_name=PROFILE, priority=priority)
    return await caller.add(replace(pod, spec=spec))


def leaving(pods: Mapping[str, Pod]) -> list[str]:
    return [pod.metadata.name for pod in pods.values() if pod.metadata.deletion_timestamp is not None]


async def test_a_refused_pod_gets_the_devices_of_a_pod_of_lower_priority(caller: Caller) -> None:
    for name, node in (("low-1", "node-1"), ("low-2", "node-2")):
        pod = await add(caller, name, 0)
        assert (await caller.filter(pod, [node])).node_names == [node]
        await caller.bind(pod, node)
    high = await add(caller, "high", 10)
    assert not (await caller.filter(high, ["node-2"])).node_names
    await caller.lab.until(lambda pods, _: leaving(pods) == ["low-2"])
    nominated = caller.lab.seen.pods.items[high.ref]
    assert nominated.status.nominated_node_name == "node-2"
    waiting = await caller.filter(nominated)
    assert list(waiting.failed_nodes) == ["node-2"], "kube-scheduler must keep the nomination"
    assert list(waiting.failed_and_unresolvable_nodes) == ["node-1"]
    await caller.lab.client.delete(PODS, "low-2", "default", grace_seconds=0)
    body = {"status": {"allocation": None, "reservedFor": None}}
    await caller.lab.client.patch(
        *(CLAIMS, "claim-low-2", "default", body, PatchKind.MERGE), into=dict, subresource="status"
    )
    await caller.until_nudged("high")
    low = await add(caller, "low-3", 0)
    assert not (await caller.filter(low)).node_names
    assert await caller.place(caller.lab.seen.pods.items[high.ref]) == "node-2"
    assert leaving(caller.lab.seen.pods.items) == []


async def test_a_nomination_that_kube_scheduler_clears_while_the_victim_leaves_is_written_again(
    caller: Caller,
) -> None:
    """kube-scheduler writes the result of an attempt asynchronously, also after the evictions."""
    await caller.bind(await add(caller, "low", 0), "node-1")
    await caller.lab.until_bound(1)
    high = await add(caller, "high", 10)
    assert not (await caller.filter(high, ["node-1"])).node_names
    await caller.lab.until(lambda pods, _: leaving(pods) == ["low"])
    assert caller.lab.seen.pods.items[high.ref].status.nominated_node_name == "node-1"
    body = {"status": {"nominatedNodeName": None}}
    cleared = await caller.lab.client.patch(
        *(PODS, "high", "default", body, PatchKind.MERGE), into=Pod, subresource="status"
    )
    assert not cleared.status.nominated_node_name

    def is_written_again(pods: Mapping[str, Pod], _: object) -> bool:
        newest = pods[high.ref]
        is_newer = int(newest.metadata.resource_version) > int(cleared.metadata.resource_version)
        return is_newer and newest.status.nominated_node_name == "node-1"

    await caller.lab.until(is_written_again)


async def test_a_pod_that_kube_scheduler_has_seen_before_its_claim_evicts_pods_when_the_claim_is_there(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, node in (("low-1", "node-1"), ("low-2", "node-2")):
        await caller.bind(await add(caller, name, 0), node)
    await caller.lab.until_bound(2)
    high = await add_pod(caller, "high", 10)
    monkeypatch.setattr("dradriver.extender.cycle.NUDGE_SECONDS", 0.0)
    assert "not found" in str(await caller.filter(high, ["node-2"]))
    await add_claim(caller, "high")
    await caller.until_nudged("high")
    assert not (await caller.filter(caller.lab.seen.pods.items[high.ref], ["node-2"])).node_names
    await caller.lab.until(lambda pods, _: leaving(pods) == ["low-2"])


async def test_a_nominated_pod_evicts_no_pod_if_another_node_suits_it(caller: Caller) -> None:
    low = await add(caller, "low", 0)
    await caller.bind(low, "node-1")
    high = await add(caller, "high", 10)
    nominated = replace(high, status=replace(high.status, nominated_node_name="node-1"))
    first = await caller.filter(nominated, ["node-1"])
    assert list(first.failed_nodes) == ["node-1"], "kube-scheduler must keep the nomination"
    assert not caller.cycle._preemptions._begun
    assert (await caller.filter(nominated)).node_names == ["node-2"]
    await caller.bind(high, "node-2")
    await caller.lab.until_bound(2)
    assert leaving(caller.lab.seen.pods.items) == []


async def test_a_nominated_pod_evicts_on_its_node_if_no_other_node_passes_the_filters(caller: Caller) -> None:
    low = await add(caller, "low", 0)
    await caller.bind(low, "node-1")
    await caller.lab.until_bound(1)
    high = await add(caller, "high", 10)
    nominated = replace(high, status=replace(high.status, nominated_node_name="node-1"))
    for _ in range(2):
        assert not (await caller.filter(nominated, ["node-1"])).node_names
    await caller.lab.until(lambda pods, _: leaving(pods) == ["low"])


async def test_victims_of_kube_scheduler_are_kept_where_they_free_devices(caller: Caller) -> None:
    for name, node in (("low-1", "node-1"), ("low-2", "node-2")):
        await caller.bind(await add(caller, name, 0), node)
    await caller.lab.until_bound(2)
    pods = caller.lab.seen.pods.items
    low = [pods[f"default/low-{number}"] for number in (1, 2)]
    other = await add(caller, "without-devices", 0)
    high = await add(caller, "high", 10)
    victims = {
        "node-1": MetaVictims(pods=[MetaPod(uid=low[0].metadata.uid)], num_pdb_violations=1),
        "node-2": MetaVictims(pods=[MetaPod(uid=other.metadata.uid)]),
    }
    trimmed = await caller.verbs.preempt(high, victims)
    assert {node: {pod.uid for pod in each.pods} for node, each in trimmed.items()} == {
        "node-1": {low[0].metadata.uid},
        "node-2": {other.metadata.uid, low[1].metadata.uid},
    }
    assert trimmed["node-1"].num_pdb_violations == 0, "no PodDisruptionBudget exists"


async def test_a_pod_that_evicts_on_one_node_gets_no_victims_on_another_node(caller: Caller) -> None:
    await caller.bind(await add(caller, "low", 0), "node-2")
    await caller.lab.until_bound(1)
    busy = await add(caller, "without-devices", 0)
    high = await add(caller, "high", 10)
    assert not (await caller.filter(high, ["node-2"])).node_names
    await caller.lab.until(lambda pods, _: leaving(pods) == ["low"])
    victims = {"node-1": MetaVictims(pods=[MetaPod(uid=busy.metadata.uid)])}
    assert not await caller.verbs.preempt(high, victims)


async def test_a_pod_that_preempts_before_its_claim_is_known_is_nudged_once_when_the_claim_is_there(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kube-scheduler has excluded all nodes by itself, so it does not try the pod again because of a claim."""
    await caller.bind(await add(caller, "low", 0), "node-1")
    low = caller.lab.seen.pods.items["default/low"]
    high = await add_pod(caller, "high", 10)
    victims = {"node-1": MetaVictims(pods=[MetaPod(uid=low.metadata.uid)])}
    monkeypatch.setattr("dradriver.extender.cycle.NUDGE_SECONDS", 0.0)
    assert not await caller.verbs.preempt(high, victims)
    await add_claim(caller, "high")
    await caller.until_nudged("high")
    await until_processed(caller, high)
    assert (await caller.cycle.decide(high.ref)).action is None
    trimmed = await caller.verbs.preempt(caller.lab.seen.pods.items[high.ref], victims)
    assert trimmed.keys() == {"node-1"}


async def test_a_pod_that_is_only_nominated_is_no_victim(caller: Caller) -> None:
    """kube-scheduler knows no such pod on the node, and rejects the whole answer."""
    nominated = await add(caller, "nominated", 0)
    assert (await caller.filter(nominated, ["node-1"])).node_names == ["node-1"]
    busy = await add(caller, "without-devices", 0)
    high = await add(caller, "high", 10)
    victims = {"node-1": MetaVictims(pods=[MetaPod(uid=busy.metadata.uid)])}
    trimmed = await caller.verbs.preempt(high, victims)
    uids = {pod.uid for each in trimmed.values() for pod in each.pods}
    assert nominated.metadata.uid not in uids


async def test_an_unknown_victim_is_an_error(caller: Caller) -> None:
    high = await add(caller, "high", 10)
    with pytest.raises(DraError, match="pod with uid nobody: is unknown"):
        await caller.verbs.preempt(high, {"node-1": MetaVictims(pods=[MetaPod(uid="nobody")])})
