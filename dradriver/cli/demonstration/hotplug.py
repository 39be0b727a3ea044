"""The steps of a story that plug and pull cards, for drivers whose simulator supports it."""

import asyncio
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol

from dradriver.cli.demonstration.waiting import deadline, object_gone
from dradriver.errors import DraError
from dradriver.kube import PODS, SLICES, Client
from dradriver.model.resource.device import Device
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["Hotplug", "hand_of"]

_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.02

Say = Callable[[str, str], None]


class Hand(Protocol):
    """Plugs in and pulls simulated cards. Blocking."""

    def plug(self) -> str:
        """Plug in one more card and return the name of its device."""

    def pull(self, device: str) -> str:
        """Pull the card of a device and return the name of the card's device."""


def hand_of(place: str, folder: Path) -> Hand:
    """Return an object of the class `module:Class` for the cards of the driver with this folder."""
    module, _, name = place.partition(":")
    made: Hand = getattr(import_module(module), name)(folder)
    return made


class Hotplug:
    """Cards of one driver on one node.

    Args:
        client: client of the embedded API server.
        driver: name of the driver.
        hand: plugs in and pulls cards.
        say: prints a line.
    """

    def __init__(self, client: Client, driver: str, hand: Hand, say: Say) -> None:
        self._client = client
        self._driver = driver
        self._hand = hand
        self._say = say

    async def a_card_appears(self) -> None:
        """Plug in a card, and wait until its devices are published.

        Raises:
            DraError: they are not published in time.
        """
        began = time.monotonic()
        card = await asyncio.to_thread(self._hand.plug)
        self._say("plug", f"a card is plugged in: {card}")
        names = await self._until("the publication of the card", card, bool)
        self._say("publish", f"{', '.join(names)}: {time.monotonic() - began:.1f} s later")

    async def the_card_is_pulled(self, device: str, pods: Iterable[str], namespace: str) -> None:
        """Pull the card of a device, and wait until its devices and their pods are gone.

        Raises:
            DraError: they are not gone in time.
        """
        try:
            card = await asyncio.to_thread(self._hand.pull, device)
        except LookupError:
            raise DraError(f"device {device} is on no simulated card") from None
        self._say("pull", f"the card is pulled: {card}")
        names = await self._until(
            "the taint of the card", card, lambda found: bool(found) and all(each.taints for each in found)
        )
        self._say("taint", f"{len(names)} devices are tainted")
        for pod in pods:
            async with deadline(f"the eviction of pod {pod}", _SECONDS):
                await object_gone(self._client, PODS, pod, namespace)
            self._say("evict", f"Pod {namespace}/{pod} is gone")
        await self._until("the end of the devices", card, lambda found: not found)
        self._say("gone", f"{card} and what was on it are not offered any more")

    async def _until(self, what: str, card: str, holds: Callable[[list[Device]], bool]) -> list[str]:
        async with deadline(what, _SECONDS):
            while True:
                slices = (await self._client.list(SLICES, into=ResourceSlice)).items
                own = [
                    device
                    for each in slices
                    if each.spec.driver == self._driver
                    for device in each.spec.devices
                ]
                found = [each for each in own if each.name == card or each.name.startswith(f"{card}-")]
                if holds(found):
                    return [each.name for each in found]
                await asyncio.sleep(_POLL_SECONDS)
