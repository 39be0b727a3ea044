"""`dradriver get` against an embedded API server."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import CLAIMS, EVENTS, PODS, SLICES, TAINT_RULES, Client, PatchKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.testing.builders import allocated, claim, device, pod, slice_

Command = Callable[..., Result]
Get = Callable[..., Awaitable[Result]]


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    server = ApiServer(tmp_path / "server")
    await server.start()
    path = tmp_path / "kubeconfig"
    server.write_kubeconfig(path)
    yield path
    await server.stop()


@pytest.fixture
async def client(kubeconfig: Path) -> AsyncIterator[Client]:
    async with await Client.connect(str(kubeconfig)) as client:
        yield client


@pytest.fixture
def get(dradriver: Command, kubeconfig: Path) -> Get:
    async def run(*arguments: str) -> Result:
        # Commands bring their own event loop, the server runs on the test's.
        return await asyncio.to_thread(dradriver, "get", *arguments, "--kubeconfig", str(kubeconfig))

    return run


async def populate(client: Client) -> None:
    await client.create(SLICES, slice_(device("gpu-0", {"model": "a"}), device("gpu-1"), count=1), into=dict)
    await client.create(SLICES, slice_(device("x"), pool="broken", count=2), into=dict)
    wanted = allocated(claim(name="mine"), "gpu-0")
    await client.create(CLAIMS, wanted, "default", into=dict)
    status = {"status": {"allocation": wanted.status.allocation}}
    await client.patch(CLAIMS, "mine", "default", status, PatchKind.MERGE, into=dict, subresource="status")
    await client.create(PODS, pod("mine"), "default", into=dict)


def row(result: Result, name: str) -> list[str]:
    assert result.exit_code == 0, result.output
    return next(line.split() for line in result.stdout.splitlines() if name in line.split()[:2])


async def test_pools_have_allocated_devices_and_problems(get: Get, client: Client) -> None:
    await populate(client)
    result = await get("pools")
    assert row(result, "node-1")[:7] == ["driver.example.com", "node-1", "node-1", "1", "1/1", "2", "1"]
    assert "incomplete: 1 of 2 slices" in " ".join(row(result, "broken"))
    items = json.loads((await get("pools", "-o", "json")).stdout)["items"]
    assert [(item["pool"], item["devices"]) for item in items] == [("broken", 1), ("node-1", 2)]


async def test_devices_have_their_claims(get: Get, client: Client) -> None:
    await populate(client)
    result = await get("devices", "--pool", "node-1")
    assert row(result, "gpu-0")[4] == "default/mine"
    assert row(await get("devices", "--pool", "node-1", "-o", "wide"), "gpu-0")[-1] == "model=a"
    assert "model" not in result.stdout
    assert row(result, "gpu-1")[4] == "-"
    items = yaml.safe_load((await get("devices", "-o", "yaml")).stdout)["items"]
    assert {item["name"]: item["allocatedTo"] for item in items}["gpu-0"] == ["default/mine"]


async def test_devices_are_those_of_the_generation_that_each_node_sees(get: Get, client: Client) -> None:
    """Of a pool that several nodes have slices of, each node sees the newest generation among its own."""
    for number, name, generation in (("1", "old", 1), ("2", "gone", 1), ("2", "new", 2)):
        node = f"node-{number}"
        each = slice_(device(name), node_name=node, pool="gpus", name=name, generation=generation)
        await client.create(SLICES, each, into=dict)
    items = json.loads((await get("devices", "-o", "json")).stdout)["items"]
    assert [(item["name"], item["node"]) for item in items] == [("new", "node-2"), ("old", "node-1")]


async def test_devices_have_the_taints_of_rules_too(get: Get, client: Client) -> None:
    await populate(client)
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    rule = {"metadata": {"name": "broken"}, "spec": {"deviceSelector": {"device": "gpu-1"}, "taint": taint}}
    await client.create(TAINT_RULES, rule, into=dict)
    items = json.loads((await get("devices", "--pool", "node-1", "-o", "json")).stdout)["items"]
    assert [(i["name"], i["taints"]) for i in items] == [
        ("gpu-0", []),
        ("gpu-1", ["example.com/broken:NoSchedule"]),
    ]


async def test_a_row_is_one_line_for_other_programs(get: Get, client: Client) -> None:
    values = {f"label_{number}": "x" * 60 for number in range(9)}
    await client.create(SLICES, slice_(device("gpu-0", values)), into=dict)
    assert row(await get("devices", "-o", "wide"), "gpu-0")[-1].count("x" * 60) == 9


async def test_claims_have_a_state(get: Get, client: Client) -> None:
    await populate(client)
    cells = row(await get("claims"), "mine")
    assert cells[:3] == ["default", "mine", "allocated"]
    assert cells[4:6] == ["node-1", "driver.example.com/node-1/gpu-0"]


async def test_pods_have_their_claims(get: Get, client: Client) -> None:
    await populate(client)
    cells = row(await get("pods", "-A"), "pod-1")
    assert cells[:4] == ["default", "pod-1", "0/1", "Pending"]
    assert cells[5:7] == ["-", "claim-0=mine"]


async def test_pods_have_the_reason_of_waiting_containers(get: Get, client: Client) -> None:
    await populate(client)
    waiting = {"reason": "ContainerCreating", "message": "brightness must be between 0 and 100"}
    status = {
        "conditions": [{"type": "Ready", "status": "False", "message": "containers are not ready"}],
        "containerStatuses": [{"name": "c", "state": {"waiting": waiting}}],
    }
    await client.patch(
        PODS, "pod-1", "default", {"status": status}, PatchKind.MERGE, into=dict, subresource="status"
    )
    shown = await get("pods")
    assert row(shown, "pod-1")[2:4] == ["0/1", "ContainerCreating"]
    assert waiting["message"] in shown.stdout


async def test_a_running_pod_that_is_not_ready_has_the_status_of_kubectl(get: Get, client: Client) -> None:
    await populate(client)
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False", "message": "containers with unready status: [c]"}],
        "containerStatuses": [{"name": "c", "ready": False, "state": {"waiting": waiting}}],
    }
    await client.patch(
        PODS, "pod-1", "default", {"status": status}, PatchKind.MERGE, into=dict, subresource="status"
    )
    shown = row(await get("pods"), "pod-1")
    assert shown[2:4] == ["0/1", "CrashLoopBackOff"]
    assert "back-off 10s restarting failed container" in " ".join(shown)


NO_SANDBOX = {"type": "PodReadyToStartContainers", "status": "False", "message": "no pod sandbox exists"}
UNPREPARED = {"status": {"conditions": [NO_SANDBOX]}}


async def test_a_pod_with_unprepared_claims_refers_to_its_events(get: Get, client: Client) -> None:
    await populate(client)
    await client.patch(PODS, "pod-1", "default", UNPREPARED, PatchKind.MERGE, into=dict, subresource="status")
    assert "kubectl describe pod" in (await get("pods")).stdout


async def test_the_last_warning_event_of_such_a_pod_is_the_reason(get: Get, client: Client) -> None:
    for name in ("mine", "other"):
        await client.create(PODS, pod(name=name), "default", into=dict)
        await client.patch(PODS, name, "default", UNPREPARED, PatchKind.MERGE, into=dict, subresource="status")
    mine = (await client.get(PODS, "mine", "default", into=Pod)).metadata
    for number, (kind, text) in enumerate(
        (("Warning", "an older one"), ("Warning", "DRA driver x is not registered"), ("Normal", "no reason"))
    ):
        event = {
            "metadata": {"name": f"mine.{number}"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "mine", "uid": mine.uid},
            "type": kind,
            "reason": "FailedPrepareDynamicResources",
            "message": text,
            "source": {"component": "kubelet"},
            "lastTimestamp": f"2026-01-01T00:00:0{number}Z",
        }
        await client.create(EVENTS, event, "default", into=dict)
    shown = await get("pods")
    assert "DRA driver x is not registered" in " ".join(row(shown, "mine"))
    assert "kubectl describe pod" in " ".join(row(shown, "other"))


async def test_a_deleted_pod_has_the_reason_why_it_stays(get: Get, client: Client) -> None:
    await populate(client)
    await client.patch(
        PODS, "pod-1", "default", {"metadata": {"finalizers": ["example.com/keep"]}}, PatchKind.MERGE, into=dict
    )
    await client.delete(PODS, "pod-1", "default")
    assert "waits until its containers end and drivers unprepare" in (await get("pods")).stdout


async def test_claims_and_pods_have_the_message_of_the_scheduler(get: Get, client: Client) -> None:
    await populate(client)
    for name in ("waits", "unused"):
        await client.create(CLAIMS, claim(name=name), "default", into=dict)
    await client.create(PODS, pod("waits", name="pod-2"), "default", into=dict)
    message = "0/1 nodes are available: 1 cannot allocate all claims: 3 devices: counter set gpu-0 exhausted."
    text = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    status = {"status": {"conditions": [text]}}
    await client.patch(PODS, "pod-2", "default", status, PatchKind.MERGE, into=dict, subresource="status")
    assert message in (await get("pods")).stdout
    claims = await get("claims")
    assert row(claims, "waits")[9] == "pods/pod-2"
    assert " ".join(row(claims, "waits")[10:]) == message
    assert " ".join(row(claims, "unused")[10:]) == "no pod uses it"
    assert row(claims, "mine")[7:] == ["-", "-", "pods/pod-1", "-"]


@pytest.mark.parametrize(
    ("arguments", "kind"), [("slices", "ResourceSlice"), ("claims", "ResourceClaim"), ("pods", "Pod")]
)
async def test_programs_get_the_clusters_own_objects(
    get: Get, client: Client, arguments: str, kind: str
) -> None:
    await populate(client)
    answer = json.loads((await get(arguments, "-o", "json")).stdout)
    assert answer["kind"] == "List"
    assert {item["kind"] for item in answer["items"]} == {kind}
    assert all(item["metadata"]["resourceVersion"] for item in answer["items"])


@pytest.mark.parametrize("arguments", ["pools", "slices", "devices", "claims", "pods"])
async def test_an_empty_cluster_is_a_message_and_no_error(get: Get, arguments: str) -> None:
    result = await get(arguments)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("No ")


def test_a_missing_kubeconfig_is_one_line(dradriver: Command) -> None:
    result = dradriver("get", "pools", "--kubeconfig", "/no/such/kubeconfig")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert "/no/such/kubeconfig" in result.stderr
    assert result.stderr.count("\n") == 1


async def test_partitions_of_a_cluster_are_drawn(get: Get, client: Client) -> None:
    consumes = [CounterConsumption("set", {"memory": 1})]
    devices = [Device(f"part-{number}", consumes_counters=consumes) for number in range(2)]
    counters = slice_(counter_sets=[CounterSet("set", {"memory": 2})], count=2, name="slice-0")
    for each in (counters, slice_(*devices, count=2, name="slice-1")):
        await client.create(SLICES, each, into=dict)
    result = await get("partitions")
    assert result.exit_code == 0, result.output
    assert "2 of 2 devices still fit: part-0, part-1" in result.stdout


async def test_devices_have_the_health_that_the_kubelet_reports(get: Get, client: Client) -> None:
    await populate(client)
    resources = [{"resourceID": "driver.example.com/node-1/gpu-0", "health": "Unhealthy"}]
    entry = {"name": "claim:claim-0", "resources": resources}
    status = {"containerStatuses": [{"name": "c", "allocatedResourcesStatus": [entry]}]}
    await client.patch(
        PODS, "pod-1", "default", {"status": status}, PatchKind.MERGE, into=dict, subresource="status"
    )
    items = json.loads((await get("devices", "--pool", "node-1", "-o", "json")).stdout)["items"]
    assert [(item["name"], item["health"]) for item in items] == [("gpu-0", "unhealthy"), ("gpu-1", "")]
    assert row(await get("devices", "node-1/gpu-0"), "gpu-0")[5] == "unhealthy"
