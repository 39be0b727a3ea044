"""Only scheduling attempts count in `scheduler_pod_scheduling_sli_duration_seconds`, as in kube-scheduler."""

import asyncio

from msgspec.structs import replace

from dradriver.model.core.workload import Pod
from tests.unit.extender.conftest import Caller
from tests.unit.extender.test_cycle_nudges_pods import fill, free, refuse

SLI = "scheduler_pod_scheduling_sli_duration_seconds_count"


async def attempts_until_bound(caller: Caller, pod: Pod, choice: int = 0) -> list[str]:
    """Return the values of the label `attempts` that the binding of a pod adds."""
    numbers = [str(number) for number in range(1, 16)]

    def counts() -> list[float]:
        registry = caller.metrics.registry
        return [registry.get_sample_value(SLI, {"attempts": number}) or 0.0 for number in numbers]

    before = counts()
    nodes = (await caller.filter(pod)).node_names
    assert nodes
    await caller.bind(pod, nodes[choice])
    await caller.lab.until(lambda pods, _: bool(pods[pod.ref].spec.node_name))
    while pod.ref in caller.cycle._plans:
        await asyncio.sleep(0.001)
    after = counts()
    return [number for number, a, b in zip(numbers, before, after, strict=True) if a != b]


async def test_a_filter_and_the_plan_for_another_node_at_bind_are_one_attempt(caller: Caller) -> None:
    assert await attempts_until_bound(caller, await caller.pod("a"), choice=1) == ["1"]


async def test_a_nudge_is_no_attempt(caller: Caller) -> None:
    full, pod = await fill(caller), await caller.pod("waiting")
    await refuse(caller, pod)
    await free(caller, full[0])
    await caller.until_nudged("waiting")
    assert await attempts_until_bound(caller, pod) == ["2"]


async def test_the_calls_for_the_nominated_node_and_for_all_nodes_are_one_attempt(caller: Caller) -> None:
    full, pod = await fill(caller), await caller.pod("a")
    nominated = replace(pod, status=replace(pod.status, nominated_node_name="node-1"))
    assert not (await caller.filter(nominated, ["node-1"])).node_names
    assert not (await caller.filter(nominated)).node_names
    await free(caller, full[0])
    await caller.until_nudged("a")
    assert await attempts_until_bound(caller, pod) == ["2"]
