"""KEP-5007's user stories, with drivers of this SDK."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import dradriver as dra
from dradriver.kube import CLAIMS, Client
from dradriver.runner.binding import BindingProcess
from tests.keps.conftest import ControlPlane, request
from tests.keps.test_5007_pods_wait_for_their_devices import (
    NODES,
    bound,
    fabric,
    pod,
    set_condition,
    wait_for_nomination,
    wait_for_refusal,
)

DRIVER: Final = "dra.example.com"
CONDITIONS: Final[dict[str, Any]] = {
    "binding_conditions": [f"{DRIVER}/is-prepared"],
    "binding_failure_conditions": [f"{DRIVER}/preparing-failed"],
}


@asynccontextmanager
async def process(plane: ControlPlane, folder: Path, driver: dra.BindingDriver) -> AsyncIterator[None]:
    """Run the driver's process; wait until its devices are published."""
    published = asyncio.Event()
    plane.controllers.caches.slices.subscribe(lambda *_: published.set())
    async with await Client.connect(str(folder / "kubeconfig")) as client:
        task = asyncio.create_task(BindingProcess(driver, client).run(asyncio.Event()))
        try:
            await published.wait()
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class Bitstream(dra.Config):
    """The opaque parameters: the bitstream to program."""

    api_version = "fpga.example.com/v1"
    kind = "Bitstream"
    image: str


class FpgaDriver(dra.BindingDriver):
    """Story 1: the device must be reprogrammed before use, which takes several minutes."""

    name = DRIVER
    configs = (Bitstream,)
    rescan_seconds = None

    def __init__(self, broken: Sequence[str] = ()) -> None:
        self.broken = broken
        self.programmed: dict[str, str] = {}
        self.minutes = asyncio.Event()

    def discover(self) -> Sequence[dra.Pool]:
        devices = tuple(dra.Device(f"fpga-{i}", node_name=f"node-{i}", **CONDITIONS) for i in (1, 2))
        return [dra.Pool(name="fpgas", devices=devices, per_device_node_selection=True)]

    async def attach(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> None:
        await self.minutes.wait()
        if device.name in self.broken:
            raise dra.AttachError("CRC error in the configuration memory", reason="ProgrammingFailed")
        wanted = device.config(Bitstream)
        self.programmed[device.name] = wanted.image if wanted else "default"

    async def detach(self, attachment: dra.Attachment) -> None:
        self.programmed.pop(attachment.device, None)


def programmed_with(image: str) -> dict[str, Any]:
    parameters = {"apiVersion": "fpga.example.com/v1", "kind": "Bitstream", "image": image}
    return {"config": [{"opaque": {"driver": DRIVER, "parameters": parameters}}]}


async def claim(plane: ControlPlane, name: str, more: dict[str, Any]) -> None:
    body = {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [request("gpu")], **more}},
    }
    await plane.client.create(CLAIMS, body, "default", into=dict)
    await plane.until_known()


async def test_story_1_asynchronous_device_initialization(plane: ControlPlane, tmp_path: Path) -> None:
    await plane.start()
    await plane.apply(NODES)
    driver = FpgaDriver()
    async with process(plane, tmp_path, driver):
        await claim(plane, "matrix", programmed_with("matrix-multiply"))
        await pod(plane, "pod-1", claim="matrix")
        await plane.until(lambda _, claims: bool(claims["default/matrix"].allocation))
        assert not driver.programmed
        driver.minutes.set()
        assert await bound(plane, "pod-1") == "node-1"
        assert driver.programmed == {"fpga-1": "matrix-multiply"}


async def test_story_1_if_the_process_fails_the_pod_is_rescheduled(plane: ControlPlane, tmp_path: Path) -> None:
    await plane.start(pod_backoff=(0.05, 0.2))
    await plane.apply(NODES)
    driver = FpgaDriver(broken=["fpga-1"])
    driver.minutes.set()
    async with process(plane, tmp_path, driver):
        await pod(plane, "pod-1")
        assert "ProgrammingFailed): CRC error" in await wait_for_refusal(plane, "pod-1")
        assert await bound(plane, "pod-1") == "node-2"


async def test_story_1_an_invalid_configuration_fails_the_claim_and_not_the_device(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await plane.start(pod_backoff=(0.05, 0.2))
    await plane.apply(NODES)
    driver = FpgaDriver()
    driver.minutes.set()
    async with process(plane, tmp_path, driver):
        wrong = {"apiVersion": "fpga.example.com/v1", "kind": "Bitstream", "imgae": "typo"}
        await claim(plane, "wrong", {"config": [{"opaque": {"driver": DRIVER, "parameters": wrong}}]})
        await pod(plane, "pod-1", claim="wrong")
        assert "InvalidConfig" in await wait_for_refusal(plane, "pod-1")
        slices = plane.controllers.caches.slices.items.values()
        assert not [device for item in slices for device in item.spec.devices if device.taints]


class ComposableDriver(dra.BindingDriver):
    """Story 2: the GPU is not yet attached to any node, and must be connected via a PCIe fabric."""

    name = DRIVER
    rescan_seconds = None

    def __init__(self, *, contended: int = 0, slow: int = 0) -> None:
        self.contended = contended
        self.slow = slow
        self.attached: dict[str, str] = {}

    def discover(self) -> Sequence[dra.Pool]:
        gpus = tuple(dra.Device(f"gpu-{i}", binds_to_node=True, **CONDITIONS) for i in (1, 2))
        return [dra.Pool(name="fabric", devices=gpus, all_nodes=True)]

    async def attach(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> None:
        if self.slow:
            self.slow -= 1
            await asyncio.get_running_loop().create_future()
        if self.contended:
            self.contended -= 1
            raise dra.AttachError("no free port on the switch", reason="FabricContention")
        self.attached[device.name] = claim.node

    async def detach(self, attachment: dra.Attachment) -> None:
        self.attached.pop(attachment.device, None)


async def test_story_2_fabric_attached_gpu_allocation(plane: ControlPlane, tmp_path: Path) -> None:
    await plane.start()
    await plane.apply(NODES)
    driver = ComposableDriver()
    async with process(plane, tmp_path, driver):
        await pod(plane, "pod-1")
        node = await bound(plane, "pod-1")
        assert list(driver.attached.values()) == [node]
        found = plane.controllers.caches.claims.items["default/pod-1"].allocation
        assert found is not None
        assert found.node_selector == dra.NodeSelector.for_node(node)


async def test_story_2_if_the_attachment_fails_the_pod_is_rescheduled(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await plane.start(pod_backoff=(0.05, 0.2))
    await plane.apply(NODES)
    driver = ComposableDriver(contended=1)
    async with process(plane, tmp_path, driver):
        await pod(plane, "pod-1")
        assert "FabricContention" in await wait_for_refusal(plane, "pod-1")
        node = await bound(plane, "pod-1")
        assert driver.attached == {"gpu-2": node}


async def test_story_2_if_the_attachment_times_out_the_pod_is_rescheduled(
    plane: ControlPlane, tmp_path: Path
) -> None:
    await plane.start(pod_backoff=(0.05, 0.2), binding_timeout=timedelta(seconds=2))
    await plane.apply(NODES)
    driver = ComposableDriver(slow=1)
    async with process(plane, tmp_path, driver):
        await pod(plane, "pod-1")
        assert "device binding timeout" in await wait_for_refusal(plane, "pod-1")
        node = await bound(plane, "pod-1")
        assert list(driver.attached.values()) == [node]


async def test_story_3_gang_scheduling_with_deferred_binding(plane: ControlPlane) -> None:
    """Speculative in the KEP: a job's controller holds all pods until each has its device."""
    await plane.start()
    await plane.apply(NODES)
    await plane.apply(fabric(3))
    names = [f"worker-{i}" for i in range(3)]
    for name in names[:2]:
        await pod(plane, name)
        await wait_for_nomination(plane, name)
    assert not any(each.spec.node_name for each in plane.controllers.caches.pods.items.values())
    await pod(plane, names[2])
    await wait_for_nomination(plane, names[2])
    for name in names:
        await set_condition(plane, name, f"{DRIVER}/is-prepared")
    for name in names:
        await bound(plane, name)
