"""The messages of pending pods with the extender, beside those of kube-scheduler's own plugin."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import pytest

from dradriver.kube import CLAIMS, PODS, SLICES, PatchKind
from dradriver.model.core.workload import Pod
from tests.e2e.bed import control_plane
from tests.e2e.bed.api_server_bed import ApiServerBed, api_server_bed
from tests.e2e.bed.kube_scheduler import start_extender, start_kube_scheduler, write_config
from tests.e2e.scheduling.scheduled_cluster import ScheduledCluster, connect

Json = dict[str, Any]
DRIVER: Final = "gpu.example.com"
GATES: Final = {"DRAPartitionableDevices": True}


@pytest.fixture(scope="module")
def bed() -> Iterator[ApiServerBed]:
    """A control plane with two kube-schedulers: one with its plugin, and one with the extender."""
    with api_server_bed() as made:
        made.serve(None, GATES)
        control_plane.start_scheduler(made, ())
        url = start_extender(made, "--no-leader-elect")
        start_kube_scheduler(made, write_config(made, url), "extended-scheduler")
        yield made


@pytest.fixture
async def plane(bed: ApiServerBed) -> AsyncIterator[ScheduledCluster]:
    async with connect(bed) as made:
        yield made


def slice_of(node: str, *devices: Json, pool: str = "", count: int = 1, **more: Any) -> Json:
    spec = {"driver": DRIVER, "nodeName": node, "devices": list(devices), **more}
    spec["pool"] = {"name": pool or node, "generation": 1, "resourceSliceCount": count}
    return {"metadata": {"name": f"{node}-{pool or 'own'}-{'sets' if more else 'devices'}"}, "spec": spec}


def device(name: str, model: str = "a", **more: Any) -> Json:
    return {"name": name, "attributes": {"model": {"string": model}}, **more}


def exactly(device_class: str = DRIVER, expression: str = "", **more: Any) -> Json:
    selectors = [{"cel": {"expression": expression}}] if expression else []
    return {"name": "gpu", "exactly": {"deviceClassName": device_class, "selectors": selectors, **more}}


def model(name: str) -> str:
    return f"device.attributes['{DRIVER}'].model == '{name}'"


CASES: Final[dict[str, tuple[Sequence[Json], Sequence[Json], Sequence[str]]]] = {
    # name: (requests, constraints, parts of our message)
    "no-such-model": ([exactly(expression=model("z"))], [], ["selector 1 of the request is false"]),
    "in-use": ([exactly(expression=model("used"))], [], ["in use by claim default/holder"]),
    "too-many": ([exactly(expression=model("a"), count=5)], [], ["5 devices are needed, 2 can be used"]),
    "over-the-limit": ([exactly(count=33)], [], ["exceeds the claim limit of 32"]),
    "no-class": ([exactly("missing.example.com")], [], ["device class missing.example.com does not exist"]),
    "tainted": ([exactly(expression=model("tainted"))], [], ["taint"]),
    "broken-selector": (
        [exactly(expression=f"device.attributes['{DRIVER}'].size > 1")],
        [],
        ["no such key: size"],
    ),
    "no-match": (
        [exactly(expression=model("a"), count=2)],
        [{"matchAttribute": f"{DRIVER}/board"}],
        [f"{DRIVER}/board"],
    ),
    "no-counters": (
        [exactly(expression=model("part"), count=2)],
        [],
        ["counter memory: the requests need at least 12 together, 8 is left"],
    ),
    "incomplete-pool": ([exactly(expression=model("late"))], [], ["incomplete"]),
}


async def create_pod(
    plane: ScheduledCluster, name: str, profile: str, requests: Sequence[Json], constraints: Sequence[Json]
) -> None:
    """Create a pod, and a claim of the same name."""
    spec = {"devices": {"requests": requests, "constraints": constraints}}
    await plane.client.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, "default", into=dict)
    container = {"name": "main", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}
    pod = {
        "schedulerName": profile,
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
    }
    await plane.client.create(PODS, {"metadata": {"name": name}, "spec": pod}, "default", into=dict)


async def until_refused(plane: ScheduledCluster, name: str, parts: Sequence[str] = ()) -> str:
    """Wait until the message of a refused pod has these parts; return the last message.

    kube-scheduler may have called the extender before the extender had received the claim or a slice. It tries
    a changed pod again.
    """
    message = ""
    with suppress(TimeoutError):
        async with asyncio.timeout(60):
            for tries in itertools.count(1):
                pod = await plane.client.get(PODS, name, "default", into=Pod)
                found = next(
                    (each.message for each in pod.status.conditions if each.type == "PodScheduled"), ""
                )
                message = found.partition(" preemption:")[0]
                is_known = message and f'resourceclaim "{name}" not found' not in message
                if is_known and all(part in message for part in parts):
                    break
                if tries % 20 == 0:
                    changed = {"metadata": {"annotations": {"tries": str(tries)}}}
                    await plane.client.patch(PODS, name, "default", changed, PatchKind.MERGE, into=dict)
                await asyncio.sleep(0.1)
    return message


async def test_each_reason_names_the_request_and_what_is_missing(plane: ScheduledCluster) -> None:
    client = plane.client
    await plane.node("node-1")
    await plane.device_class(DRIVER, DRIVER)
    consumes = [{"counterSet": "card", "counters": {"memory": {"value": "6"}}}]
    for body in (
        slice_of(
            "node-1",
            device("a-0"),
            device("a-1"),
            device("used-0", "used"),
            device("tainted-0", "tainted", taints=[{"key": "broken", "effect": "NoSchedule"}]),
        ),
        slice_of(
            "node-1",
            pool="cards",
            count=2,
            sharedCounters=[{"name": "card", "counters": {"memory": {"value": "8"}}}],
        ),
        slice_of(
            "node-1",
            *(device(f"part-{n}", "part", consumesCounters=consumes) for n in range(2)),
            pool="cards",
            count=2,
        ),
    ):
        if body["spec"].get("sharedCounters"):
            del body["spec"]["devices"]
        await client.create(SLICES, body, into=dict)
    await create_pod(plane, "holder", "dradriver", [exactly(expression=model("used"))], [])
    await plane.bound("holder")
    lines = []
    for name, (requests, constraints, parts) in CASES.items():
        messages = []
        if name == "incomplete-pool":  # every message would name this pool
            late = slice_of("node-1", device("late-0", "late"), pool="late", count=2)
            await client.create(SLICES, late, into=dict)
        for profile in ("default-scheduler", "dradriver"):
            full = f"{name}-{profile}"
            await create_pod(plane, full, profile, requests, constraints)
            wanted = parts if profile == "dradriver" else ()
            messages.append(await until_refused(plane, full, wanted))
        theirs, ours = messages
        lines.append(f"{name}\n  plugin:   {theirs}\n  extender: {ours}")
        assert theirs, lines[-1]
        assert all(part in ours for part in parts), lines[-1]
    print(*lines, sep="\n")
