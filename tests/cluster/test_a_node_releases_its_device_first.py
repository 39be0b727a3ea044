"""`node_releases` in a whole cluster: a pod is deleted by force, and its node needs time to let go."""

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import dradriver as dra
from dradriver.cluster import EmbeddedCluster
from dradriver.kube import CLAIMS, CLASSES, CONFIG_MAPS, PODS, Client
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.runner.binding import BindingProcess
from dradriver.testing import builders
from tests.cluster.helpers import plugin_on

NAME = builders.DRIVER


class Hardware:
    """Memory that a fabric attaches, and that a node makes into regions."""

    def __init__(self) -> None:
        self.attached: set[str] = set()
        self.regions: set[str] = set()
        self.free = asyncio.Event()


class Pools(dra.BindingDriver):
    name = NAME
    rescan_seconds = 0.1
    own_conditions = (f"{NAME}/attached",)
    node_releases = True

    def __init__(self, hardware: Hardware) -> None:
        self.hardware = hardware

    async def discover(self) -> Sequence[dra.Pool]:
        """Return memory for the nodes that have reported their identity."""
        reports = await self.node_reports()
        devices = [
            dra.Device(
                f"memory-{report.values['systemUUID']}",
                node_name=node,
                binding_conditions=[f"{NAME}/attached", f"{NAME}/ready"],
                binding_failure_conditions=[f"{NAME}/failed"],
            )
            for node, report in reports.items()
            if not report.problem
        ]
        return [dra.Pool("fabric", devices=tuple(devices), per_device_node_selection=True)]

    async def attach(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> None:
        self.hardware.attached.add(device.name)

    async def detach(self, attachment: dra.Attachment) -> None:
        assert not self.hardware.regions, "the node uses it still"
        self.hardware.attached.discard(attachment.device)


class OnNode(dra.NodeBindingDriver):
    name = NAME
    rescan_seconds = None
    own_conditions = (f"{NAME}/ready",)
    attach_after = (f"{NAME}/attached",)
    node_releases = True

    def __init__(self, hardware: Hardware) -> None:
        self.hardware = hardware

    def discover(self) -> Sequence[dra.Pool]:
        return []

    def report(self) -> dra.NodeReport:
        return dra.NodeReport(values={"systemUUID": "7"})

    async def attach(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> None:
        self.hardware.regions.add(device.name)

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        return {device: dra.PreparedDevice() for device in claim.devices}

    async def unprepare(self, claim: dra.Claim) -> None:
        await self.hardware.free.wait()
        self.hardware.regions.clear()


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not done():
            await asyncio.sleep(0.02)


async def is_running(client: Client) -> None:
    async with asyncio.timeout(30):
        while (await client.get(PODS, "pod-1", "default", into=Pod)).status.phase != "Running":
            await asyncio.sleep(0.02)


async def test_the_device_stays_attached_until_the_node_has_let_go() -> None:
    hardware = Hardware()
    with tempfile.TemporaryDirectory(prefix="dra") as folder:
        async with (
            EmbeddedCluster(Path(folder) / "c", runtime="process") as cluster,
            plugin_on(cluster, "node-1", OnNode(hardware)),
        ):
            client = cluster.client()
            process = BindingProcess(Pools(hardware), client)
            running = asyncio.create_task(process.run(stop := asyncio.Event()))
            await client.create(CLASSES, builders.device_class(), into=dict)
            await client.create(CLAIMS, builders.claim(), "default", into=dict)
            pod = builders.pod("claim-1", command=["sleep", "1000"])
            await client.create(PODS, pod, "default", into=dict)
            await is_running(client)
            assert hardware.attached == hardware.regions == {"memory-7"}
            await client.delete(PODS, "pod-1", "default", grace_seconds=0)
            async with asyncio.timeout(30):
                while (await client.get(CLAIMS, "claim-1", "default", into=ResourceClaim)).allocation:
                    await asyncio.sleep(0.02)
            note = await client.get(CONFIG_MAPS, f"{NAME}-node-1", "default", into=dict)
            assert "memory-7" in note["data"]["attachments"]
            assert hardware.attached
            hardware.free.set()
            await until(lambda: not hardware.attached)
            stop.set()
            await running
