"""A cluster without binding conditions, and the two halves of `two_halves` in it: the pod is bound at once."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from dradriver.kube import Client
from dradriver.model.resource.attachments import prepare_allowed, prepare_refused
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.node import Plugin
from dradriver.runner.binding_node import BindingPlugin
from tests.unit.conditions.fabric import DRIVER, Hardware, Lab
from tests.unit.conditions.node_driver import NODE, beside_a_kubelet
from tests.unit.conditions.two_halves import MemoryOnNode, MemoryPools, memory
from tests.unit.node.plugin_world import prepare

GATE = "DRADeviceBindingConditions"
ALLOWED, REFUSED = prepare_allowed(DRIVER), prepare_refused(DRIVER)
TOO_SLOW = ("the API server does not answer", "continues in the background")
"""Errors of a call whose steps together take longer than its deadline."""


class Pools(MemoryPools):
    """Publishes devices of one node, also to an API server that drops their conditions."""

    def __init__(self, hardware: Hardware, *names: str, others: Sequence[Device] = ()) -> None:
        super().__init__(hardware)
        devices = [
            replace(memory(name), binds_to_node=None, node_name=NODE)
            for name in names or ("memory-0", "memory-1")
        ]
        self.offer([*devices, *others])

    def offer(self, devices: Sequence[Device]) -> None:
        """Change the result of the next `discover()`."""
        self.pools = [Pool("fabric", devices=devices, per_device_node_selection=True)]

    def fallback(self, dropped: Collection[str]) -> Sequence[Pool] | None:
        if "bindingConditions" not in dropped:
            return None
        return [replace(pool, devices=tuple(map(without_conditions, pool.devices))) for pool in self.pools]


def without_conditions(device: Device) -> Device:
    return replace(device, binding_conditions=(), binding_failure_conditions=())


@asynccontextmanager
async def kubelet(
    lab: Lab,
    node: MemoryOnNode,
    folder: Path,
    *,
    client_type: type[Client] = Client,
    prepare_deadline: float = 1.0,
) -> AsyncIterator[BindingPlugin]:
    """Run the node's plugin; a prepare is answered soon."""
    async with beside_a_kubelet(
        *(lab, Hardware(), folder),
        driver=node,
        client_type=client_type,
        prepare_deadline=prepare_deadline,
    ) as plugin:
        yield plugin


async def answer_of(plugin: Plugin, lab: Lab, name: str = "pod-1") -> Any:
    """Return the answer to one call of the kubelet; the call is repeated while a busy machine is too slow."""
    claim = lab.claim(name)
    while True:
        answer = (await prepare(plugin, claim))[claim.metadata.uid]
        if not any(text in answer.error for text in TOO_SLOW):
            return answer


async def final_answer(plugin: Plugin, lab: Lab, name: str = "pod-1") -> str:
    """Call again and again, as the kubelet does; return the first final error, or an empty text."""
    while True:
        error = str((await answer_of(plugin, lab, name)).error)
        if "in progress" not in error:
            return error


async def end_pod(lab: Lab, name: str = "pod-1") -> None:
    """Delete the pod, as its user does, and wait until nothing of the driver is left in the claim."""
    await lab.delete_pod(name)
    await lab.until(lambda _, claims: not claims[f"default/{name}"].metadata.finalizers)
