"""A node with simulated cards, in a cluster without containers."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import msgspec

import dradriver as dra
from dradriver.kube import CLAIMS, PODS, Client
from dradriver.node import PluginConfig
from dradriver.runner.binding_node import BindingPlugin
from dradriver.testing import builders
from dradriver_fpga import FpgaDriver
from dradriver_fpga.card import Bitstream
from dradriver_fpga.card.simulator import CATALOG, FpgaMemoryStore, SimulatedFpgas
from dradriver_fpga.offer import DRIVER
from tests.drivers.fpga.bitstream_files import Bitstreams
from tests.unit.conditions.fabric import Lab
from tests.unit.node.plugin_world import notify

NODE = "node-1"
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": DRIVER},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
}
PAC, REGION_0, REGION_1 = "0000:3b:00.0", "0000:3b:00.0/0", "0000:3b:00.0/1"
INTERFACES = tuple(shell.interface_id for shell in CATALOG["pac"].shells)


class Cluster(Protocol):
    """Where a node is: embedded, or of real programs."""

    @property
    def kubeconfig(self) -> str:
        """For the driver's process."""

    @property
    def client(self) -> Client:
        """An administrator's."""


class BriefDriver(FpgaDriver):
    """Devices that failed come back while a test waits."""

    quarantine_seconds: ClassVar[float] = 0.5


class QuickHardware(SimulatedFpgas):
    """Ends a wait soon, so that a test can end."""

    def wait_change(self, timeout: float) -> bool:
        return super().wait_change(min(timeout, 0.02))


@dataclass
class Node:
    """A node whose cards and folders outlive the driver's process.

    Attributes:
        folder: of the kubelet and of bitstreams.
        models: the cards.
        calls: calls that the hardware received.
    """

    folder: Path
    models: tuple[str, ...] = ("pac",)
    name: str = NODE
    settings: dict[str, Any] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    store: FpgaMemoryStore = field(default_factory=FpgaMemoryStore)
    speed: float = 1e6
    driver_class: type[FpgaDriver] = FpgaDriver

    def __post_init__(self) -> None:
        for name in ("registry", "images"):
            (self.folder / name).mkdir()
        self.images = Bitstreams(self.folder / "images")
        self.controls = SimulatedFpgas(self.models, store=self.store)

    def _hook(self, call: str, moment: str) -> None:
        if moment == "before":
            self.calls.append(call)

    @property
    def programmed(self) -> int:
        """How often a card was programmed to the end."""
        return self.calls.count("programmed")

    async def wait_for_call(self, call: str) -> None:
        """Waits until the hardware received a call."""
        while call not in self.calls:
            await asyncio.sleep(0.01)

    def with_shells(self) -> None:
        """The operator lets the card have either shell."""
        for number in range(2):
            image = self.images.shell("pac", number)
            shell = {"interfaceID": INTERFACES[number], "vendor": "8086", "device": "09c4"}
            self.settings.setdefault("shells", []).append(shell | {"bitstream": self.reference(image)})

    def reference(self, image: Bitstream, **more: Any) -> dict[str, Any]:
        """The bitstream as claims have it."""
        return {"file": image.path.name, "sha256": image.sha256, **more}

    def text(self) -> str:
        """The settings as the operator writes them."""
        rules = {"folder": str(self.folder / "images")}
        rules |= self.settings.get("bitstreams", {"allowUnsigned": True})
        return msgspec.json.encode({**self.settings, "bitstreams": rules}).decode()

    def driver(self) -> FpgaDriver:
        hardware = QuickHardware(self.models, store=self.store, speed=self.speed, hook=self._hook)
        return self.driver_class(self.text(), hardware)

    @asynccontextmanager
    async def running(self, lab: Cluster, **settings: Any) -> AsyncIterator[BindingPlugin]:
        """A process of the driver, beside a kubelet."""
        async with await Client.connect(lab.kubeconfig) as client:
            config = PluginConfig(
                self.name,
                plugins_dir=self.folder / "plugins",
                registry_dir=self.folder / "registry",
                cdi_dir=self.folder / "cdi",
                boot_id="boot-1",
                **settings,
            )
            plugin = BindingPlugin(self.driver(), client, config)
            await plugin.start()
            await notify(plugin)
            try:
                yield plugin
            finally:
                await plugin.stop(0)


def opaque_config(bitstream: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """`config` of a claim."""
    parameters: dict[str, Any] = {"apiVersion": "fpga.example.com/v1", "kind": "FpgaConfig"}
    if bitstream is not None:
        parameters["bitstream"] = bitstream
    return [{"opaque": {"driver": DRIVER, "parameters": parameters}}]


def kind(name: str, **attributes: str) -> list[str]:
    """Selectors of devices of a kind."""
    wait_for_reason = {"type": name, **attributes}
    return [f"device.attributes['{DRIVER}'].{key} == '{value}'" for key, value in wait_for_reason.items()]


async def pod(
    lab: Cluster, name: str, bitstream: dict[str, Any] | None = None, selectors: Iterable[str] = ()
) -> None:
    """A pod with a claim of its name: for a region, unless selectors say otherwise."""
    chosen = [{"cel": {"expression": each}} for each in selectors or kind("region")]
    request = {"name": "fpga", "exactly": {"deviceClassName": DRIVER, "selectors": chosen}}
    body = {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [request], "config": opaque_config(bitstream)}},
    }
    await lab.client.create(CLAIMS, body, "default", into=dict)
    await lab.client.create(PODS, builders.pod(name, name=name), "default", into=dict)


async def wait_for_reason(lab: Lab, name: str, reason: str) -> dra.Condition:
    """Waits until a failure condition of the pod's claim has this reason."""
    found: list[dra.Condition] = []

    def failed(_: object, claims: Any) -> bool:
        claim = claims.get(f"default/{name}")
        entries = claim.status.devices if claim else ()
        found[:] = [each for entry in entries for each in entry.conditions if each.reason == reason]
        return bool(found)

    await lab.until(failed)
    return found[0]
