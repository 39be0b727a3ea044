"""A `NodeBindingDriver` of the tests, and its process beside a kubelet."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from dradriver.driver import AllocatedDevice, BindingClaim, Claim, NodeBindingDriver, PreparedDevice
from dradriver.kube import Client
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.node import PluginConfig
from dradriver.runner.binding_node import BindingPlugin
from tests.unit.conditions.fabric import ATTACHED, DRIVER, FAILED, Hardware, Lab
from tests.unit.node.plugin_world import notify

NODE = "node-1"


def card(name: str, memory: int) -> Device:
    return Device(
        name,
        binding_conditions=[ATTACHED],
        binding_failure_conditions=[FAILED],
        consumes_counters=[CounterConsumption("card", {"memory": memory})],
    )


class CardDriver(NodeBindingDriver):
    name = DRIVER
    rescan_seconds = None

    def __init__(self, hardware: Hardware) -> None:
        self.hardware = hardware

    def discover(self) -> Sequence[Pool]:
        sets = (CounterSet("card", {"memory": 2}),)
        return [Pool(devices=(card("half-0", 1), card("half-1", 1), card("whole", 2)), counter_sets=sets)]

    async def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
        await self.hardware.open.wait()
        self.hardware.attached.pop(device.name, None)
        self.hardware.attach(device.name, claim.uid, claim.node)

    def prepare(self, claim: Claim) -> Mapping[AllocatedDevice, PreparedDevice]:
        return {device: PreparedDevice() for device in claim.devices}


@asynccontextmanager
async def beside_a_kubelet(
    lab: Lab,
    hardware: Hardware,
    folder: Path,
    pod_uid: str = "",
    driver: NodeBindingDriver | None = None,
    client_type: type[Client] = Client,
    prepare_deadline: float = 40.0,
) -> AsyncIterator[BindingPlugin]:
    """Run a plugin; by default with a `CardDriver`."""
    async with await client_type.connect(lab.kubeconfig) as client:
        config = PluginConfig(
            NODE,
            plugins_dir=folder / "plugins",
            registry_dir=folder / "registry",
            cdi_dir=folder / "cdi",
            boot_id="boot-1",
            pod_uid=pod_uid,
            prepare_deadline=prepare_deadline,
        )
        plugin = BindingPlugin(driver or CardDriver(hardware), client, config)
        await plugin.start()
        await notify(plugin)
        try:
            yield plugin
        finally:
            await plugin.stop(1)
