"""Plugs in and pulls cards during a demonstration, for drivers whose simulator supports this."""

import asyncio
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol

from dradriver.cli.demonstration.waiting import deadline, wait_for_deletion, wait_for_object
from dradriver.errors import DraError
from dradriver.kube import PODS, SLICES, Client
from dradriver.model.resource.device import Device
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["Hotplug", "load_card_plugger"]

_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.02

Report = Callable[[str, str], None]


class CardPlugger(Protocol):
    """Plugs in and pulls simulated cards. The methods block."""

    def plug(self) -> str:
        """Plug in one more card, and return the device name of the card."""

    def pull(self, device: str) -> str:
        """Pull the card that contains a device, and return the device name of the card.

        Args:
            device: name of a device on the card.

        Raises:
            LookupError: no simulated card has this device.
        """


def load_card_plugger(class_path: str, folder: Path) -> CardPlugger:
    """Return an object that plugs in and pulls the cards of a driver.

    Args:
        class_path: class of the object, as `module:Class`.
        folder: folder of the driver's simulator.
    """
    module, _, name = class_path.partition(":")
    plugger: CardPlugger = getattr(import_module(module), name)(folder)
    return plugger


class Hotplug:
    """Cards of one driver on one node.

    Args:
        client: client of the embedded API server.
        driver: name of the driver.
        plugger: plugs in and pulls cards.
        report: prints a line.
    """

    def __init__(self, client: Client, driver: str, plugger: CardPlugger, report: Report) -> None:
        self._client = client
        self._driver = driver
        self._plugger = plugger
        self._report = report

    async def plug_card(self) -> None:
        """Plug in a card, and wait until its devices are published.

        Raises:
            DraError: the devices are not published in time.
        """
        began = time.monotonic()
        card = await asyncio.to_thread(self._plugger.plug)
        self._report("plug", f"card {card} is plugged in")
        names = await self._until("publication of the card", card, bool)
        self._report("publish", f"{', '.join(names)}: {time.monotonic() - began:.1f} s later")

    async def pull_card(self, device: str, pods: Iterable[str], namespace: str) -> None:
        """Pull the card of a device, and wait until its devices and the given pods are deleted.

        Args:
            device: name of a device on the card.
            pods: names of the pods that use the card.
            namespace: namespace of the pods.

        Raises:
            DraError: no card has the device, or an object is not deleted in time.
        """
        before = (await self._client.list(SLICES, into=dict)).resource_version
        try:
            card = await asyncio.to_thread(self._plugger.pull, device)
        except LookupError:
            raise DraError(f"device {device}: no simulated card has it") from None
        self._report("pull", f"card {card} is pulled")
        async with deadline("tainting of the card", _SECONDS):
            # The taints are removed with the devices, maybe before anything else is read.
            tainted = await wait_for_object(
                self._client, SLICES, ResourceSlice, lambda each: self._is_tainted(each, card), after=before
            )
        self._report("taint", f"{len(self._devices_of(tainted, card))} devices are tainted")
        for pod in pods:
            async with deadline(f"eviction of pod {pod}", _SECONDS):
                await wait_for_deletion(self._client, PODS, pod, namespace)
            self._report("evict", f"Pod {namespace}/{pod} is gone")
        await self._until("removal of the devices", card, lambda devices: not devices)
        self._report("gone", f"{card} and its devices are not published any more")

    async def _until(self, what: str, card: str, matches: Callable[[list[Device]], bool]) -> list[str]:
        async with deadline(what, _SECONDS):
            while True:
                slices = (await self._client.list(SLICES, into=ResourceSlice)).items
                devices = [device for each in slices for device in self._devices_of(each, card)]
                if matches(devices):
                    return [each.name for each in devices]
                await asyncio.sleep(_POLL_SECONDS)

    def _is_tainted(self, candidate: ResourceSlice, card: str) -> bool:
        devices = self._devices_of(candidate, card)
        return bool(devices) and all(each.taints for each in devices)

    def _devices_of(self, candidate: ResourceSlice, card: str) -> list[Device]:
        if candidate.spec.driver != self._driver:
            return []
        return [
            each for each in candidate.spec.devices if each.name == card or each.name.startswith(f"{card}-")
        ]
