"""Pods with extended resources (KEP-5004) get devices on some nodes, and use a device plugin on others."""

import asyncio

from msgspec.structs import replace

from dradriver.control.extended import is_special_for
from dradriver.control.runtime.actions import CreateClaim
from dradriver.kube import CLASSES, PODS, PatchKind
from dradriver.kube import NODES as NODE_OBJECTS
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.unit.control import extended_pods
from tests.unit.control.extended_pods import GPU
from tests.unit.extender.conftest import NODES, PROFILE, Caller, Pause

PLUGIN = "node-4"


async def serve(caller: Caller, *selectors: str) -> Pod:
    """Let the class serve an extended resource, add a node with a device plugin, and create a pod."""
    spec = {"extendedResourceName": GPU, "selectors": [{"cel": {"expression": each}} for each in selectors]}
    await caller.lab.client.patch(CLASSES, builders.CLASS, "", {"spec": spec}, PatchKind.MERGE, into=dict)
    await caller.lab.client.create(NODE_OBJECTS, extended_pods.plugin_node(PLUGIN, 1), into=dict)
    await caller.until_known(PLUGIN)
    while builders.CLASS not in caller.cycle._caches.classes.items or not (
        caller.cycle._caches.classes.items[builders.CLASS].spec.extended_resource_name
    ):
        await asyncio.sleep(0.001)
    return await create(caller, "gpu")


async def create(caller: Caller, name: str) -> Pod:
    pod = extended_pods.pod(name, gpu=1)
    return await caller.add(replace(pod, spec=replace(pod.spec, scheduler_name=PROFILE)))


def special(caller: Caller, pod: Pod) -> list[ResourceClaim]:
    return [claim for claim in caller.lab.seen.claims.items.values() if is_special_for(claim, pod)]


async def test_nodes_with_devices_and_nodes_with_a_plugin_are_found(caller: Caller) -> None:
    pod = await serve(caller)
    result = await caller.filter(pod, [*NODES, PLUGIN, "node-9"])
    assert set(result.node_names or []) == {*NODES, PLUGIN}


async def test_on_a_node_with_devices_the_pod_gets_a_special_claim(caller: Caller) -> None:
    pod = await serve(caller)
    assert await caller.place(pod, ["node-2"]) == "node-2"
    (claim,) = special(caller, pod)
    assert [result.pool for result in claim.results] == ["node-2"]
    await caller.lab.until(lambda pods, _: bool(pods[pod.ref].status.extended_resource_claim_status))


async def test_on_a_node_with_a_plugin_the_pod_gets_no_claim(caller: Caller) -> None:
    pod = await serve(caller)
    assert await caller.place(pod, [PLUGIN]) == PLUGIN
    assert not special(caller, pod)
    late = await create(caller, "late")
    result = await caller.filter(late, [PLUGIN])
    assert result.failed_and_unresolvable_nodes == {PLUGIN: f"Insufficient {GPU}"}


async def test_kube_scheduler_may_choose_the_other_kind_of_node(caller: Caller) -> None:
    pod, late = await serve(caller), await create(caller, "late")
    for each, other in ((pod, PLUGIN), (late, "node-1")):
        assert other in ((await caller.filter(each, [*NODES, PLUGIN])).node_names or [])
        await caller.bind(each, other)
    assert not special(caller, pod)
    assert len(special(caller, late)) == 1


async def test_a_wrong_class_leaves_the_nodes_with_a_plugin(caller: Caller) -> None:
    pod = await serve(caller, 'device.attributes["driver.example.com"].missing == "a"')
    result = await caller.filter(pod, [*NODES, PLUGIN])
    assert result.node_names == [PLUGIN]


async def test_an_abandoned_call_deletes_the_special_claim(caller: Caller) -> None:
    pod = await serve(caller)
    await caller.filter(pod, ["node-1"])
    pause = Pause(caller.cycle, CreateClaim, after=True)
    call = asyncio.create_task(caller.bind(pod, "node-1"))
    await pause.reached.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    pause.go.set()
    await caller.lab.until(lambda *_: not special(caller, pod))
    assert await caller.place_again(pod)


async def test_a_process_that_starts_after_the_claim_was_created_replaces_it(caller: Caller) -> None:
    pod = await serve(caller)
    await caller.filter(pod, ["node-1"])
    pause = Pause(caller.cycle, CreateClaim, after=True)
    call = asyncio.create_task(caller.bind(pod, "node-1"))
    await pause.reached.wait()
    await caller.restart()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    result = await caller.filter(pod, ["node-2"])
    assert not result.node_names
    await caller.until_nudged("gpu")
    assert await caller.place(pod, ["node-2"]) == "node-2"
    assert len(special(caller, pod)) == 1
    running = await caller.lab.client.get(PODS, "gpu", "default", into=Pod)
    status = running.status.extended_resource_claim_status
    assert status is not None
    assert [status.resource_claim_name] == [claim.metadata.name for claim in special(caller, pod)]
