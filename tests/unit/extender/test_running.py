"""The process of the extender exports the metrics of scheduling with the names that Kubernetes uses."""

import asyncio

import pytest

from dradriver.control.scheduler.node_choice import search as node_search
from tests.unit.extender.conftest import Caller

PLUGIN = "scheduler_plugin_execution_duration_seconds"
POINT = "scheduler_framework_extension_point_duration_seconds"


def value(caller: Caller, name: str, **labels: str) -> float | None:
    return caller.metrics.registry.get_sample_value(name, labels)


async def test_score_is_the_time_to_answer_prioritize(caller: Caller) -> None:
    now = 0.0

    def advance() -> float:
        nonlocal now
        now += 1.0
        return now

    pod = await caller.pod("a")
    nodes = (await caller.filter(pod)).node_names or []
    caller.cycle._attempts.now = advance  # type: ignore[method-assign]
    assert len(await caller.verbs.prioritize(pod, nodes)) == len(nodes)
    score = {"extension_point": "Score", "status": "Success"}
    assert value(caller, f"{POINT}_sum", profile="dradriver", **score) == 1.0
    assert value(caller, f"{PLUGIN}_sum", plugin="DynamicResources", **score) == 1.0


async def test_score_does_not_count_pods_without_devices(caller: Caller) -> None:
    pod = await caller.pod_of("plain")
    await caller.filter(pod)
    assert [each.score for each in await caller.verbs.prioritize(pod, ["node-1"])] == [0]
    score = {"extension_point": "Score", "status": "Success", "profile": "dradriver"}
    assert value(caller, f"{POINT}_count", **score) is None


async def test_filter_includes_the_comparison_of_the_other_nodes(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin is measured while the placer looks for other suitable nodes."""
    running: list[bool] = []
    find_others = node_search.NodeSearch._score_fitting

    def observe(search: node_search.NodeSearch, *arguments: object) -> object:
        time = search._cycle.times.plugins["DynamicResources"]
        before = time.seconds
        found = find_others(search, *arguments)  # type: ignore[arg-type]
        running.append(time.seconds > before)
        return found

    monkeypatch.setattr(node_search.NodeSearch, "_score_fitting", observe)
    assert len((await caller.filter(await caller.pod("a"))).node_names or []) == 2
    assert running == [True]


async def test_all_claims_of_the_cluster_are_counted(caller: Caller) -> None:
    first = await caller.pod("a")
    await caller.place(first)
    await caller.place(await caller.pod("b"))
    await caller.pod("c")
    await caller.delete_pod(first)
    claims = caller.cycle._caches.claims
    while len(claims.items) < 3:
        await asyncio.sleep(0.001)
    for name in ("resourceclaim_controller_resource_claims", "dynamic_resource_allocation_resource_claims"):
        for allocated, count in (("true", 2), ("false", 1)):
            assert value(caller, name, allocated=allocated, admin_access="false", source="") == count
