"""Kubernetes 1.34 to 1.37, emulated: a driver publishes the fields of the version, kube-scheduler allocates."""

import json
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from dradriver.kube import CLAIMS, CLASSES, NODES, PODS, SERVICE_ACCOUNTS, AlreadyExists, Client, PatchKind
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device, Taint
from dradriver.model.resource.pool import Pool
from dradriver.publish import PoolState
from tests.conformance.apiserver.suite import DRA
from tests.e2e.bed import api_server_clients, control_plane
from tests.e2e.bed.api_server_bed import NODE, ApiServerBed, api_server_bed
from tests.e2e.publishing.running_plugin import (
    DRIVER,
    GROUPED,
    LISTED,
    SHARED,
    RunningPlugin,
    StaticDriver,
    run_plugin,
    until,
)

ALPHA: Final = (
    "DRAConsumableCapacity", "DRADeviceBindingConditions", "DRADeviceTaints", "DRAPartitionableDevices",
)  # fmt: skip
"""Off as shipped in 1.34 and 1.35, on in later ones."""
GATES: Final[Mapping[str, Mapping[str, bool]]] = {
    "1.34": dict.fromkeys(ALPHA, True),
    "1.35": dict.fromkeys(ALPHA, True),
    "1.36": {"DRAListTypeAttributes": True},
    "1.37": control_plane.ALL_GATES,
}


def part(name: str, kind: str, memory: int) -> Device:
    return Device(name, {"kind": kind}, consumes_counters=[CounterConsumption("gpu", {"memory": memory})])


CARD: Final = Pool(
    "card",
    (part("part-0", "part", 2), part("part-1", "part", 2), part("whole", "whole", 4)),
    (CounterSet("gpu", {"memory": 4}),),
)
FABRIC: Final = Pool(
    "fabric",
    (Device("port", {"kind": "fabric"}, binding_conditions=["Ready"], binding_failure_conditions=["Failed"]),),
)
BROKEN: Final = Pool(
    "broken",
    (Device("bad", {"kind": "broken"}, taints=[Taint(key="example.com/broken", effect="NoSchedule")]),),
)
FALLBACK: Final = Pool("card", (Device("whole", {"kind": "whole"}),))
YOUNGER: Final = {
    "grouped": ("DRADeviceCompatibilityGroups", "1.37"),
    "listed": ("DRAListTypeAttributes", "1.36"),
}
"""Pools whose fields older versions have never heard of."""


@dataclass(frozen=True)
class Scheduling:
    """A control plane with kube-scheduler and one node object.

    Attributes:
        bed: where it runs.
        version: what it emulates.
    """

    bed: ApiServerBed
    version: str


def start(version: str, gates: Mapping[str, bool]) -> Iterator[Scheduling]:
    with api_server_bed() as bed:
        bed.serve(None, gates, emulated_version=version)
        options = [f"--emulated-version={version}"]
        if gates:
            options.append(
                "--feature-gates=" + ",".join(f"{gate}={str(on).lower()}" for gate, on in gates.items())
            )
        control_plane.start_scheduler(bed, options)
        yield Scheduling(bed, version)


@pytest.fixture(scope="module", params=GATES)
def switched_on(request: pytest.FixtureRequest) -> Iterator[Scheduling]:
    yield from start(request.param, GATES[request.param])


@pytest.fixture(scope="module", params=("1.34", "1.35"))
def as_shipped(request: pytest.FixtureRequest) -> Iterator[Scheduling]:
    yield from start(request.param, {})


async def put(client: Client, resource: Any, body: Mapping[str, Any], namespace: str = "") -> None:
    with suppress(AlreadyExists):
        await client.create(resource, body, namespace, into=dict)


async def create_dependencies(client: Client) -> None:
    """Create the objects that missing components would have created."""
    room = {"pods": "20", "cpu": "8", "memory": "8Gi"}
    status = {"status": {"capacity": room, "allocatable": room}}
    await client.patch(NODES, NODE, "", status, PatchKind.MERGE, into=dict, subresource="status")
    await put(client, SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, "default")
    for kind in ("part", "whole", "fabric", "broken"):
        attributes = f'device.attributes["{DRIVER}"]'
        expression = f'"kind" in {attributes} && {attributes}.kind == "{kind}"'
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        await put(client, CLASSES, {"metadata": {"name": kind}, "spec": spec})


async def create_pod(client: Client, name: str, kind: str) -> None:
    """Create a pod that requests one device of a kind."""
    request = {"name": "one", "exactly": {"deviceClassName": kind}}
    claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    await client.create(CLAIMS, claim, "default", into=dict)
    container = {"name": "c", "image": "none", "resources": {"claims": [{"name": "device"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "device", "resourceClaimName": name}]}
    await client.create(PODS, {"metadata": {"name": name}, "spec": spec}, "default", into=dict)


async def wait_for_condition(client: Client, name: str) -> Mapping[str, Any]:
    """Wait for kube-scheduler's condition of a pod; return it."""
    found: list[Mapping[str, Any]] = []

    async def there() -> bool:
        pod = await client.get(PODS, name, "default", into=dict)
        found[:] = [
            each for each in pod.get("status", {}).get("conditions", ()) if each["type"] == "PodScheduled"
        ]
        return bool(found)

    await until(there)
    return found[0]


async def bound(client: Client, name: str) -> ResourceClaim:
    """Wait until the pod has a node; return its claim."""

    async def there() -> bool:
        return bool((await client.get(PODS, name, "default", into=dict))["spec"].get("nodeName"))

    await until(there)
    return await client.get(CLAIMS, name, "default", into=ResourceClaim)


@pytest.fixture
async def node(switched_on: Scheduling) -> AsyncIterator[RunningPlugin]:
    pools = (CARD, FABRIC, BROKEN, SHARED, GROUPED, LISTED)
    with tempfile.TemporaryDirectory() as folder:
        async with run_plugin(switched_on.bed, Path(folder), StaticDriver(*pools)) as node:
            await create_dependencies(node.client)
            yield node


async def test_a_pool_is_published_or_its_missing_gate_is_reported(
    node: RunningPlugin, switched_on: Scheduling
) -> None:
    for name in ("card", "fabric", "broken", "shared"):
        assert (await node.wait_for_state(name, PoolState.PUBLISHED)).dropped == frozenset()
    for name, (gate, since) in YOUNGER.items():
        unsafe = name == "grouped" and switched_on.version < since
        status = await node.wait_for_state(name, PoolState.UNSAFE_WITHDRAWN if unsafe else PoolState.PUBLISHED)
        assert {field.gate for field in status.dropped} == ({gate} if switched_on.version < since else set())


async def test_counters_are_allocated_and_not_exceeded(node: RunningPlugin) -> None:
    await node.wait_for_state("card", PoolState.PUBLISHED)
    for name in ("part-a", "part-b"):
        await create_pod(node.client, name, "part")
        claim = await bound(node.client, name)
        assert await node.prepare(claim) == ""
    await create_pod(node.client, "whole", "whole")
    assert (await wait_for_condition(node.client, "whole"))["reason"] == "Unschedulable"
    devices = {result.device for name in ("part-a", "part-b") for result in (await _claim(node, name)).results}
    assert devices == {"part-0", "part-1"}


async def test_a_tainted_device_is_not_allocated(node: RunningPlugin) -> None:
    await node.wait_for_state("broken", PoolState.PUBLISHED)
    await create_pod(node.client, "broken", "broken")
    assert (await wait_for_condition(node.client, "broken"))["reason"] == "Unschedulable"


async def test_a_pod_is_bound_when_the_binding_conditions_are_true(node: RunningPlugin) -> None:
    await node.wait_for_state("fabric", PoolState.PUBLISHED)
    await create_pod(node.client, "fabric", "fabric")

    async def is_allocated() -> bool:
        return bool((await _claim(node, "fabric")).results)

    await until(is_allocated)
    claim = await _claim(node, "fabric")
    assert claim.results[0].binding_conditions == ["Ready"]
    assert not (await node.client.get(PODS, "fabric", "default", into=dict))["spec"].get("nodeName")
    now = {"type": "Ready", "status": "True", "reason": "Up", "message": "",
           "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    device = {"driver": DRIVER, "pool": "fabric", "device": "port", "conditions": [now]}
    status = {"status": {"devices": [device]}}
    await node.client.patch(
        CLAIMS, "fabric", "default", status, PatchKind.MERGE, into=dict, subresource="status"
    )
    assert await node.prepare(await bound(node.client, "fabric")) == ""


async def test_counters_and_devices_in_one_slice_are_rejected(switched_on: Scheduling) -> None:
    """Validation is that of 1.37 in every emulated version; a real 1.34 requires them in one slice."""
    counters = {"counters": {"memory": {"value": "4"}}}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "combined"},
        "spec": {
            "driver": DRIVER, "nodeName": NODE, "pool": {"name": "x", "generation": 1, "resourceSliceCount": 1},
            "sharedCounters": [{"name": "gpu", **counters}],
            "devices": [{"name": "part", "consumesCounters": [{"counterSet": "gpu", **counters}]}],
        },
    }  # fmt: skip
    async with api_server_clients.real(switched_on.bed) as api:
        answer = await api.call(
            "POST", f"{DRA}/resourceslices", json.dumps(body).encode(), params={"dryRun": "All"}
        )
    assert answer.status == 422


async def test_with_default_gates_the_fallback_is_published_and_allocated(
    as_shipped: Scheduling, tmp_path: Path
) -> None:
    driver = StaticDriver(CARD, fallback=[FALLBACK])
    async with run_plugin(as_shipped.bed, tmp_path, driver) as node:
        await create_dependencies(node.client)
        status = await node.wait_for_state("card", PoolState.FALLBACK)
        assert {field.gate for field in status.dropped} == {"DRAPartitionableDevices"}
        assert {frozenset(asked) for asked in driver.asked} == {
            frozenset({"consumesCounters", "sharedCounters"})
        }
        await create_pod(node.client, "whole", "whole")
        claim = await bound(node.client, "whole")
        assert [result.device for result in claim.results] == ["whole"]
        assert await node.prepare(claim) == ""


async def _claim(node: RunningPlugin, name: str) -> ResourceClaim:
    return await node.client.get(CLAIMS, name, "default", into=ResourceClaim)
