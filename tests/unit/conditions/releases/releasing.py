"""A pool driver and a node driver with `node_releases`, on hardware that notices a wrong detach."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dradriver.conditions.releases.waits import ReleaseWaits
from dradriver.driver import AllocatedDevice, BindingClaim, Claim, NodeReport, PreparedDevice
from dradriver.kube import CONFIG_MAPS, NODES, Client, PatchKind
from dradriver.model.core.config_map import ConfigMap
from dradriver.node import PluginConfig
from dradriver.node.usage.note import UsageNote, decode_note, note_name
from dradriver.runner.binding_node import BindingPlugin
from tests.unit.conditions.fabric import DRIVER, Hardware, Lab
from tests.unit.conditions.node_driver import NODE
from tests.unit.conditions.two_halves import MemoryOnNode, MemoryPools
from tests.unit.node.plugin_world import notify

NOTE = note_name(DRIVER, NODE)


@dataclass
class Memory(Hardware):
    """Memory on a fabric, and the regions that nodes have made of it.

    Attributes:
        regions: the claim that uses a device on its node, by device.
        pulled: devices that were detached while a node used them.
    """

    regions: dict[str, str] = field(default_factory=dict)
    pulled: list[str] = field(default_factory=list)

    def detach(self, device: str, uid: str) -> None:
        if self.regions.get(device) == uid:
            self.pulled.append(device)
        super().detach(device, uid)


class Pools(MemoryPools):
    node_releases = True
    hardware: Memory


class OnNode(MemoryOnNode):
    """Makes regions in `attach` or `prepare`, and removes them in `unprepare`.

    Attributes:
        state: the report.
        unprepared: the UIDs of the calls.
    """

    node_releases = True

    def __init__(self, memory: Memory, *bad: str) -> None:
        super().__init__(*bad)
        self.memory = memory
        self.state = NodeReport(values={"systemUUID": "7"})
        self.unprepared: list[str] = []

    def report(self) -> NodeReport:
        return self.state

    async def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
        await super().attach(claim, device)
        self.memory.regions[device.name] = claim.uid

    def prepare(self, claim: Claim) -> Mapping[AllocatedDevice, PreparedDevice]:
        self.memory.regions |= {device.name: claim.uid for device in claim.devices}
        return super().prepare(claim)

    def unprepare(self, claim: Claim) -> None:
        self.unprepared.append(claim.uid)
        for name in [name for name, uid in self.memory.regions.items() if uid == claim.uid]:
            del self.memory.regions[name]


async def boot(lab: Lab, boot_id: str) -> None:
    """The kubelet reports a boot ID."""
    body = {"status": {"nodeInfo": {"bootID": boot_id}}}
    await lab.client.patch(NODES, NODE, "", body, PatchKind.MERGE, into=dict, subresource="status")


async def one_node(lab: Lab, folder: Path) -> None:
    """Prepare the cluster: only one node is left, and its kubelet has reported its boot."""
    await lab.client.delete(NODES, "node-2")
    await boot(lab, "boot-1")
    (folder / "registry").mkdir()


@asynccontextmanager
async def plugin_of(
    lab: Lab, driver: OnNode, folder: Path, client_type: type[Client] = Client, boot_id: str = "boot-1"
) -> AsyncIterator[BindingPlugin]:
    """Run the node's plugin."""
    async with await client_type.connect(lab.kubeconfig) as client:
        config = PluginConfig(
            NODE,
            plugins_dir=folder / "plugins",
            registry_dir=folder / "registry",
            cdi_dir=folder / "cdi",
            boot_id=boot_id,
        )
        plugin = BindingPlugin(driver, client, config)
        await plugin.start()
        try:
            await notify(plugin)
            yield plugin
        finally:
            await plugin.stop(0)


async def note(lab: Lab) -> UsageNote:
    return decode_note(await lab.client.get(CONFIG_MAPS, NOTE, "default", into=ConfigMap))


async def until_noted(lab: Lab, done: Callable[[UsageNote], bool]) -> UsageNote:
    """Wait until the note is as wanted, or until the test's time limit."""
    listing = await lab.client.list(CONFIG_MAPS, "default", into=ConfigMap)
    for item in listing.items:
        if item.metadata.name == NOTE and done(decode_note(item)):
            return decode_note(item)
    watch = lab.client.watch(CONFIG_MAPS, "default", into=ConfigMap, resource_version=listing.resource_version)
    async for event in watch:
        if event.object is not None and event.object.metadata.name == NOTE and event.object.data:
            found = decode_note(event.object)
            if done(found):
                return found
    raise AssertionError("the watch has ended")


async def is_ready(lab: Lab) -> None:
    """Wait until the node has reported that it can attach."""
    await until_noted(lab, lambda found: not found.report.problem)


async def let_go(lab: Lab, name: str = "pod-1") -> None:
    """Wait until the claim has no attachment any more."""
    await lab.until(lambda _, claims: not claims[f"default/{name}"].metadata.finalizers)


def hurry(patch: Any) -> None:
    """Make the waits for nodes short."""
    patch.setattr(ReleaseWaits, "pause_seconds", (0.02, 0.02))
