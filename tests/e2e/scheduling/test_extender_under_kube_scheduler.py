"""The extender behind a real kube-scheduler whose plugin DynamicResources is off."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import pytest

from dradriver.aio.tasks import end
from dradriver.kube import (
    CLAIMS,
    CLASSES,
    DISRUPTION_BUDGETS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    SLICES,
    AlreadyExists,
    Client,
    Forbidden,
    NotFound,
    PatchKind,
    Resource,
)
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import DeviceRequest, ExactDeviceRequest, ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.testing import builders
from tests.e2e.bed import control_plane
from tests.e2e.bed.api_server_bed import ApiServerBed, api_server_bed
from tests.e2e.bed.kube_scheduler import start_extender, start_kube_scheduler, write_config
from tests.e2e.chart.chart_accounts import chart_accounts, write_account_kubeconfig
from tests.e2e.scheduling.scheduled_cluster import ScheduledCluster, connect

PROFILE: Final = "dradriver"
VALUES: Final = {
    "scheduler.enabled": True,
    "scheduler.kubeScheduler.image.repository": "registry.example.com/kube-scheduler",
}
PRIORITIES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
READY: Final = f"{builders.DRIVER}/attached"
FAILED: Final = f"{builders.DRIVER}/attach-failed"


@pytest.fixture(scope="module")
def bed() -> Iterator[ApiServerBed]:
    """A control plane whose only kube-scheduler has the extender, which has only the rights of the chart."""
    with api_server_bed() as made:
        made.serve(None, {})
        control_plane.start_controller_manager(made, ())
        with chart_accounts(made, "default", "extender", VALUES):
            account = write_account_kubeconfig(made, "default", "extender-scheduler")
            url = start_extender(made, "--no-leader-elect", "--binding-timeout=60", kubeconfig=account)
            start_kube_scheduler(made, write_config(made, url, "--binding-timeout=60"), "extended-scheduler")
            yield made


class Plane(ScheduledCluster):
    """The cluster of the tests."""

    async def create_pod(
        self, name: str, *claims: str, priority_class: str = "", gates: Sequence[str] = (), **requests: str
    ) -> None:
        """Create a pod of the profile with existing claims and with extended resources (`__` stands for /).

        Its label `app` is its name.
        """
        pod = builders.pod(*claims, name=name)
        body: dict[str, Any] = {
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "schedulerName": PROFILE,
                "priorityClassName": priority_class,
                "schedulingGates": [{"name": each} for each in gates],
                "containers": [
                    {
                        "name": "main",
                        "image": "busybox",
                        "resources": {
                            "claims": [{"name": each.name} for each in pod.spec.resource_claims],
                            "limits": {key.replace("__", "/"): value for key, value in requests.items()},
                        },
                    }
                ],
                "resourceClaims": [
                    {"name": each.name, "resourceClaimName": each.resource_claim_name}
                    for each in pod.spec.resource_claims
                ],
            },
        }
        await self.client.create(PODS, body, "default", into=dict)

    async def pod_with_claim(
        self, name: str, count: int = 1, priority_class: str = "", gates: Sequence[str] = (), **requests: str
    ) -> None:
        """Create a pod, and a claim of the same name."""
        claim = builders.claim(builders.device_request(count=count), name=name)
        await self.client.create(CLAIMS, claim, "default", into=dict)
        await self.create_pod(name, name, priority_class=priority_class, gates=gates, **requests)

    async def remove_gates(self, name: str) -> None:
        """Let a pod be scheduled."""
        body = {"spec": {"schedulingGates": None}}
        await self.client.patch(PODS, name, "default", body, PatchKind.MERGE, into=dict)

    async def end_pod(self, name: str) -> None:
        """Set the phase of a pod whose containers have ended."""
        body = {"status": {"phase": "Succeeded"}}
        await self.client.patch(PODS, name, "default", body, PatchKind.MERGE, into=dict, subresource="status")

    async def slice_of(self, node: str, *devices: Device) -> None:
        """Publish devices on a node."""
        await self.client.create(SLICES, builders.slice_(*devices, node_name=node), into=dict)

    async def until_waiting(self, name: str) -> ResourceClaim:
        """Wait until the pod waits for binding conditions; return its claim."""
        async with asyncio.timeout(60):
            while not (await self.client.get(PODS, name, "default", into=Pod)).status.nominated_node_name:
                await asyncio.sleep(0.1)
            while not (claim := await self.claim(name)).results:
                await asyncio.sleep(0.1)
        return claim


@pytest.fixture
async def plane(bed: ApiServerBed) -> AsyncIterator[Plane]:
    """Two nodes, and a class of the driver's devices."""
    async with connect(bed) as connected:
        made = Plane(connected.client)
        for name in ("node-1", "node-2"):
            await made.node(name)
        await made.client.create(CLASSES, builders.device_class(), into=dict)
        yield made
        await _clean(made.client)


async def _clean(client: Client) -> None:
    for pod in (await client.list(PODS, "default", into=Pod)).items:
        await client.delete(PODS, pod.metadata.name, "default", grace_seconds=0)
    for resource in (CLAIMS, SLICES, CLASSES, NODES, EVENTS, DISRUPTION_BUDGETS):
        namespace = "default" if resource.namespaced else ""
        for item in (await client.list(resource, namespace, into=dict)).items:
            await client.delete(resource, item["metadata"]["name"], namespace)
    async with asyncio.timeout(60):
        while (await client.list(CLAIMS, "default", into=dict)).items:
            await asyncio.sleep(0.1)


async def test_every_pod_gets_its_own_device_and_one_event_of_kube_scheduler(plane: Plane) -> None:
    for node in ("node-1", "node-2"):
        await plane.slice_of(node, *(builders.device(f"device-{number}") for number in range(3)))
    names = [f"pod-{number}" for number in range(6)]
    for name in names:
        await plane.pod_with_claim(name)
    await plane.create_pod("without-devices")
    pods = await plane.bound(*names, "without-devices")
    devices = [str(result.id) for name in names for result in (await plane.claim(name)).results]
    assert len(set(devices)) == 6
    for pod in pods[:6]:
        claim = await plane.claim(pod.metadata.name)
        assert [consumer.uid for consumer in claim.status.reserved_for] == [pod.metadata.uid]
        assert claim.results[0].pool == pod.spec.node_name
    # kube-scheduler writes the event after the extender has bound the pod.
    scheduled = await plane.until_events("Scheduled", *names, "without-devices")
    assert Counter(each["name"] for each in scheduled) == dict.fromkeys([*names, "without-devices"], 1)


async def test_a_refused_pod_has_the_reason_and_is_bound_when_a_slice_helps(plane: Plane) -> None:
    await plane.slice_of("node-1", builders.device("device-0"))
    await plane.pod_with_claim("pair", count=2)
    await plane.refusal("pair", "0/2 nodes are available")
    # The extender may have been called before it received the slice. kube-scheduler tries a changed pod again.
    changed = {"metadata": {"annotations": {"changed": "yes"}}}
    await plane.client.patch(PODS, "pair", "default", changed, PatchKind.MERGE, into=dict)
    message = await plane.refusal("pair", "2 devices are needed")
    assert "0/2 nodes are available" in message
    assert "1 cannot allocate all claims: claim default/pair, request device" in message
    await plane.slice_of("node-2", builders.device("device-0"), builders.device("device-1"))
    (pod,) = await plane.bound("pair", seconds=60)
    assert pod.spec.node_name == "node-2"


async def test_a_freed_device_goes_to_a_waiting_pod(plane: Plane) -> None:
    await plane.slice_of("node-1", builders.device("device-0"))
    await plane.pod_with_claim("first")
    await plane.bound("first")
    await plane.pod_with_claim("second")
    await plane.refusal("second", "in use")
    await plane.client.delete(PODS, "first", "default", grace_seconds=0)
    await plane.bound("second", seconds=60)


async def test_a_pod_waits_for_a_claim_that_does_not_exist_yet(plane: Plane) -> None:
    await plane.slice_of("node-1", builders.device("device-0"))
    await plane.create_pod("early", "late")
    await plane.refusal("early", 'resourceclaim "late" not found')
    await plane.client.create(CLAIMS, builders.claim(name="late"), "default", into=dict)
    await plane.bound("early", seconds=60)


async def test_a_pod_is_bound_when_its_device_is_ready(plane: Plane) -> None:
    device = Device("device-0", binding_conditions=[READY], binding_failure_conditions=[FAILED])
    await plane.slice_of("node-1", device)
    await plane.pod_with_claim("waits")
    claim = await plane.until_waiting("waits")
    assert not (await plane.client.get(PODS, "waits", "default", into=Pod)).spec.node_name
    await plane.set_condition(claim, READY)
    await plane.bound("waits", seconds=60)


async def test_a_device_that_fails_is_released_and_the_pod_is_tried_again(plane: Plane) -> None:
    device = Device("device-0", binding_conditions=[READY], binding_failure_conditions=[FAILED])
    await plane.slice_of("node-1", device)
    await plane.pod_with_claim("waits")
    first = await plane.until_waiting("waits")
    await plane.set_condition(first, FAILED)
    await plane.refusal("waits", "device binding failed")
    async with asyncio.timeout(60):
        while True:
            claim = await plane.claim("waits")
            if claim.allocation is not None and not claim.status.devices:
                break
            await asyncio.sleep(0.1)
    await plane.set_condition(claim, READY)
    await plane.bound("waits", seconds=60)


async def test_groups_whose_gates_are_removed_together_are_not_starved_by_other_pods(plane: Plane) -> None:
    # Kueue removes the gates of all pods of a group when the pods of an earlier group have ended. At that time,
    # the claims of the earlier group still have their devices, and a pod without gates waits for one, too.
    for node in ("node-1", "node-2"):
        await plane.slice_of(node, builders.device("device-0"), builders.device("device-1"))
    groups = [[f"group-{group}-{number}" for number in range(3)] for group in range(3)]
    for name in (name for group in groups for name in group):
        await plane.pod_with_claim(name, gates=["kueue.x-k8s.io/admission"])
    previous: list[str] = []
    for number, group in enumerate(groups):
        await plane.pod_with_claim(f"single-{number}")
        await asyncio.gather(*map(plane.end_pod, previous), *map(plane.remove_gates, group))
        previous = [*group, f"single-{number}"]
        await plane.bound(*previous, seconds=60)
        claims = [await plane.claim(name) for name in previous]
        assert len({result.id for claim in claims for result in claim.results}) == 4


async def test_device_plugins_and_devices_serve_one_extended_resource(plane: Plane) -> None:
    name = "example.com/gpu"
    await plane.node("node-1", **{"example.com__gpu": "1"})
    body = {"spec": {"extendedResourceName": name}}
    await plane.client.patch(CLASSES, builders.CLASS, "", body, PatchKind.MERGE, into=dict)
    await plane.slice_of("node-2", builders.device("device-0"))
    for pod_name in ("one", "two"):
        await plane.create_pod(pod_name, **{"example.com__gpu": "1"})
    pods = await plane.bound("one", "two", seconds=60)
    assert {pod.spec.node_name for pod in pods} == {"node-1", "node-2"}
    (served,) = [pod for pod in pods if pod.spec.node_name == "node-2"]
    claim = await plane.special_claim(served)
    assert claim is not None
    assert [result.device for result in claim.results] == ["device-0"]
    await plane.create_pod("three", **{"example.com__gpu": "1"})
    await plane.refusal("three", "0/2 nodes are available")


@asynccontextmanager
async def ending_pods(client: Client) -> AsyncIterator[None]:
    """End pods that are being deleted, as a kubelet does."""

    async def end_pods() -> None:
        while True:
            for pod in (await client.list(PODS, "default", into=Pod)).items:
                if pod.metadata.deletion_timestamp is not None:
                    with suppress(NotFound):
                        await client.delete(PODS, pod.metadata.name, "default", grace_seconds=0)
            await asyncio.sleep(0.2)

    task = asyncio.create_task(end_pods())
    try:
        yield
    finally:
        await end({task})


async def create_priority(plane: Plane, name: str, value: int) -> None:
    """Create a priority, and wait until the admission of pods has received it."""
    body = {"metadata": {"name": name}, "value": value}
    with suppress(AlreadyExists):
        await plane.client.create(PRIORITIES, body, into=dict)
    spec = {"priorityClassName": name, "containers": [{"name": "main", "image": "busybox"}]}
    pod = {"metadata": {"name": "of-the-priority"}, "spec": spec}
    async with asyncio.timeout(60):
        while True:
            with suppress(Forbidden):
                await plane.client.create(PODS, pod, "default", into=dict, dry_run=True)
                return
            await asyncio.sleep(0.05)


async def unevicted(plane: Plane) -> set[str]:
    """Return the names of the pods that are not being deleted."""
    pods = (await plane.client.list(PODS, "default", into=Pod)).items
    return {pod.metadata.name for pod in pods if pod.metadata.deletion_timestamp is None}


async def test_a_pod_whose_only_obstacle_is_a_device_evicts_a_pod_of_lower_priority(plane: Plane) -> None:
    await create_priority(plane, "high", 1000)
    for node in ("node-1", "node-2"):
        await plane.slice_of(node, builders.device("device-0"), builders.device("device-1"))
    for name in ("pair", "one", "two"):
        await plane.pod_with_claim(name, count=2 if name == "pair" else 1)
        await plane.bound(name)
    await plane.pod_with_claim("urgent", count=2, priority_class="high")
    async with ending_pods(plane.client):
        (urgent,) = await plane.bound("urgent", seconds=60)
    left = {pod.metadata.name for pod in (await plane.client.list(PODS, "default", into=Pod)).items}
    assert left == {"one", "two", "urgent"}, "one victim is enough"
    (preempted,) = await plane.until_events("Preempted", "pair")
    assert preempted["name"] == "pair"
    assert urgent.spec.node_name


async def test_of_two_victims_the_one_that_no_budget_protects_is_evicted(plane: Plane) -> None:
    """Without the budget, the pod whose name comes last is evicted."""
    await create_priority(plane, "high", 1000)
    budget = {
        "metadata": {"name": "low-2"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "low-2"}}},
    }
    await plane.client.create(DISRUPTION_BUDGETS, budget, "default", into=dict)
    await plane.slice_of("node-1", builders.device("device-0"), builders.device("device-1"))
    for name in ("low-1", "low-2"):
        await plane.pod_with_claim(name)
    await plane.bound("low-1", "low-2")
    await plane.pod_with_claim("urgent", priority_class="high")
    async with ending_pods(plane.client):
        await plane.bound("urgent", seconds=60)
    assert await unevicted(plane) == {"low-2", "urgent"}


async def test_no_pod_is_evicted_for_a_claim_that_a_pod_of_higher_priority_uses_too(plane: Plane) -> None:
    await create_priority(plane, "high", 1000)
    await create_priority(plane, "highest", 2000)
    await plane.slice_of("node-1", builders.device("device-0"))
    await plane.pod_with_claim("low")
    await plane.create_pod("important", "low", priority_class="highest")
    await plane.bound("low", "important")
    await plane.pod_with_claim("urgent", priority_class="high")
    await plane.refusal("urgent", "in use")
    await plane.slice_of("node-2", builders.device("device-0"))
    await plane.bound("urgent", seconds=60)
    assert await unevicted(plane) == {"low", "important", "urgent"}


async def test_no_pod_is_evicted_for_a_claim_that_the_preempting_pod_uses_too(plane: Plane) -> None:
    await create_priority(plane, "high", 1000)
    await plane.slice_of("node-1", builders.device("device-0"))
    await plane.pod_with_claim("low")
    await plane.bound("low")
    await plane.client.create(CLAIMS, builders.claim(name="own"), "default", into=dict)
    await plane.create_pod("urgent", "low", "own", priority_class="high")
    await plane.refusal("urgent", "in use")
    more = builders.slice_(builders.device("device-1"), node_name="node-1", pool="more")
    await plane.client.create(SLICES, more, into=dict)
    (urgent,) = await plane.bound("urgent", seconds=60)
    assert urgent.spec.node_name == "node-1"
    assert await unevicted(plane) == {"low", "urgent"}


async def test_a_pod_with_admin_access_is_not_evicted_because_it_holds_no_device(plane: Plane) -> None:
    await create_priority(plane, "high", 1000)
    await create_priority(plane, "highest", 2000)
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await plane.client.patch(NAMESPACES, "default", "", label, PatchKind.MERGE, into=dict)
    await plane.slice_of("node-1", builders.device("device-0"))
    request = DeviceRequest("device", ExactDeviceRequest(device_class_name=builders.CLASS, admin_access=True))
    await plane.client.create(CLAIMS, builders.claim(request, name="monitor"), "default", into=dict)
    await plane.create_pod("monitor", "monitor")
    await plane.pod_with_claim("important", priority_class="highest")
    await plane.bound("monitor", "important")
    await plane.pod_with_claim("urgent", priority_class="high")
    await plane.refusal("urgent", "in use")
    await plane.slice_of("node-2", builders.device("device-0"))
    await plane.bound("urgent", seconds=60)
    assert (await plane.claim("monitor")).results[0].admin_access
    assert await unevicted(plane) == {"monitor", "important", "urgent"}


async def test_a_pod_that_lacks_cpu_and_a_device_evicts_pods_for_both(plane: Plane) -> None:
    await create_priority(plane, "high", 1000)
    await plane.slice_of("node-1", builders.device("device-0"))
    await plane.pod_with_claim("holder")
    await plane.create_pod("busy-1", cpu="99")
    await plane.create_pod("busy-2", cpu="99")
    await plane.bound("holder", "busy-1", "busy-2")
    await plane.pod_with_claim("urgent", priority_class="high", cpu="50")
    async with ending_pods(plane.client):
        (urgent,) = await plane.bound("urgent", seconds=60)
    assert urgent.spec.node_name == "node-1"
    left = {
        pod.metadata.name: pod.spec.node_name
        for pod in (await plane.client.list(PODS, "default", into=Pod)).items
    }
    assert "holder" not in left
    assert len(left) == 2
    assert left.keys() & {"busy-1", "busy-2"}
