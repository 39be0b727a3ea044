"""A pod is not bound if the API server drops a field of its allocation."""

import asyncio

import pytest

from dradriver.control.controllers import Controllers
from dradriver.control.settings import SchedulerSettings
from dradriver.extender.bind_calls import BindError
from dradriver.kube import CLAIMS, PODS, SLICES
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.unit.control.conftest import Lab
from tests.unit.control.world import slow_device
from tests.unit.extender.conftest import NODES, Caller

GATE = "DRADeviceBindingConditions"
PROBLEM = (
    "claim default/claim-a: status.allocation.devices.results[].bindingConditions: the API server does not "
    f"store the field: the feature gate {GATE} is off"
)


async def publish_slow_devices(lab: Lab) -> None:
    """Replace the devices by one that must be attached first.

    When the gate is off later, the API server keeps the fields of its slice.
    """
    for node in NODES:
        await lab.client.delete(SLICES, builders.slice_(node_name=node).metadata.name)
    await lab.client.create(SLICES, builders.slice_(slow_device(), node_name="node-1"), into=dict)


async def test_bind_answers_with_the_field_and_the_device_is_free_again(lab: Lab, caller: Caller) -> None:
    pod = await caller.pod("a")
    await publish_slow_devices(lab)
    while (await caller.filter(pod)).node_names != ["node-1"]:
        await asyncio.sleep(0.01)
    await lab.change_gates(**{GATE: False})
    for _ in range(2):
        with pytest.raises(BindError) as caught:
            await caller.bind(pod, "node-1")
        assert str(caught.value) == PROBLEM
    assert (await caller.filter(pod)).node_names == ["node-1"]
    assert (await lab.client.get(CLAIMS, "claim-a", "default", into=ResourceClaim)).allocation is None
    assert not (await lab.client.get(PODS, "a", "default", into=Pod)).spec.node_name


async def test_the_embedded_scheduler_writes_the_reason_to_the_condition(lab: Lab, caller: Caller) -> None:
    pod = await caller.pod("a", scheduler="default-scheduler")
    await publish_slow_devices(lab)
    await lab.change_gates(**{GATE: False})
    async with Controllers(lab.client, SchedulerSettings(pod_backoff=(0.01, 0.02))):
        await lab.until(
            lambda pods, claims: (
                any(c.message == PROBLEM for c in pods[pod.ref].status.conditions)
                and claims["default/claim-a"].allocation is None
            )
        )
    assert not lab.seen.pods.items[pod.ref].spec.node_name
