"""The extender on a kube-apiserver that drops a field of allocations, because its feature gate is off."""

import asyncio
from typing import Any, Final

from dradriver.kube import CLAIMS, CLASSES, PODS, SLICES
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.testing import builders
from tests.e2e.bed.api_server_bed import api_server_bed
from tests.e2e.bed.kube_scheduler import start_extender, start_kube_scheduler, write_config
from tests.e2e.scheduling.scheduled_cluster import connect

GATE: Final = "DRADeviceBindingConditions"
DEVICE: Final = Device(
    "device-0", binding_conditions=["attached"], binding_failure_conditions=["attach-failed"]
)
PROBLEM: Final = (
    "claim default/claim: status.allocation.devices.results[].bindingConditions: the API server does not store "
    f"the field: the feature gate {GATE} is off"
)
POD: Final[dict[str, Any]] = {
    "metadata": {"name": "pod"},
    "spec": {
        "schedulerName": "dradriver",
        "containers": [
            {"name": "main", "image": "busybox", "resources": {"claims": [{"name": "device"}]}},
        ],
        "resourceClaims": [{"name": "device", "resourceClaimName": "claim"}],
    },
}


async def test_the_pod_waits_with_the_reason_until_the_gate_is_on() -> None:
    with api_server_bed() as bed:
        await asyncio.to_thread(bed.serve, None, {})
        async with connect(bed) as cluster:
            await cluster.node("node-1")
            await cluster.client.create(CLASSES, builders.device_class(), into=dict)
            await cluster.client.create(SLICES, builders.slice_(DEVICE), into=dict)
            claim = builders.claim(name="claim")
            await cluster.client.create(CLAIMS, claim, "default", into=dict)
        await asyncio.to_thread(bed.serve, None, {GATE: False})
        url = await asyncio.to_thread(start_extender, bed, "--no-leader-elect")
        config = await asyncio.to_thread(write_config, bed, url)
        await asyncio.to_thread(start_kube_scheduler, bed, config, "extended-scheduler")
        async with connect(bed) as cluster:
            await cluster.client.create(PODS, POD, "default", into=dict)
            await cluster.refusal("pod", PROBLEM)
            stored = await cluster.client.get(CLAIMS, "claim", "default", into=ResourceClaim)
            assert stored.allocation is None
            assert not (await cluster.client.get(PODS, "pod", "default", into=Pod)).spec.node_name
        await asyncio.to_thread(bed.serve, None, {})
        async with connect(bed) as cluster, asyncio.timeout(240):
            while stored.allocation is None:
                await asyncio.sleep(0.2)
                stored = await cluster.client.get(CLAIMS, "claim", "default", into=ResourceClaim)
            assert stored.results[0].binding_conditions == ["attached"]
