"""The controller dies right before or after its n-th write; the next process has the same result."""

import asyncio
import os
from typing import Any, ClassVar

import pytest

from dradriver.kube import CLAIMS, PODS, Client
from tests.unit.classic.shelf import Shelf, ShelfDriver, ShelfLab

STEP = 1 if "KILLS" in os.environ else 3
"""`make faults` kills at every write, `make test` at every third."""

WRITES = range(1, 10, STEP)
"""From the finalizer, by way of record, node and allocation, to the claim's end."""


class Mortal(Client):
    """A client whose process stops forever at a write."""

    left: ClassVar[int]
    is_late: ClassVar[bool]
    died: ClassVar[asyncio.Event]

    async def patch(self, *args: Any, **kwargs: Any) -> Any:
        return await self._write(super().patch, args, kwargs)

    async def create(self, *args: Any, **kwargs: Any) -> Any:
        return await self._write(super().create, args, kwargs)

    async def delete(self, *args: Any, **kwargs: Any) -> Any:
        return await self._write(super().delete, args, kwargs)

    async def _write(self, call: Any, args: Any, kwargs: Any) -> Any:
        kind = type(self)
        kind.left -= 1
        if kind.left < 0 or (kind.left == 0 and not kind.is_late):
            await self._die()
        try:
            return await call(*args, **kwargs)
        finally:
            if kind.left == 0:
                await self._die()

    async def _die(self) -> None:
        type(self).died.set()
        await asyncio.get_running_loop().create_future()


def mortal(number: int, *, late: bool) -> type[Mortal]:
    class Numbered(Mortal):
        left = number
        is_late = late
        died = asyncio.Event()

    return Numbered


@pytest.mark.parametrize("late", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("number", WRITES)
@pytest.mark.parametrize("immediate", [False, True], ids=["delayed", "immediate"])
async def test_the_next_process_continues(
    lab: ShelfLab, shelf: Shelf, number: int, late: bool, immediate: bool
) -> None:
    client = mortal(number, late=late)
    life = asyncio.create_task(live_immediate(lab) if immediate else live(lab))
    async with lab.driver(ShelfDriver(shelf), client=client):
        dead = asyncio.create_task(client.died.wait())
        await asyncio.wait({life, dead}, return_when="FIRST_COMPLETED")
        dead.cancel()
    async with lab.driver(ShelfDriver(shelf)):
        await life
    assert shelf.held == {}


async def live(lab: ShelfLab) -> None:
    """A pod gets a claim, ends, and the claim is deleted."""
    await lab.create_claim()
    pod = await lab.create_pod("claim-1")
    await lab.negotiate(pod, "node-1")
    await lab.allocated()
    await lab.client.delete(PODS, "pod-1", "default", grace_seconds=0)
    await lab.release()
    await lab.client.delete(CLAIMS, "claim-1", "default")
    await lab.gone()


async def live_immediate(lab: ShelfLab) -> None:
    """A claim is allocated, cleared by others, allocated again and deleted."""
    await lab.create_claim(immediate=True)
    first = await lab.allocated()
    await lab.clear()
    before = first.metadata.resource_version
    await lab.until(
        lambda: (c := lab.claim()) and c.allocation and int(c.metadata.resource_version) > int(before)
    )
    await lab.client.delete(CLAIMS, "claim-1", "default")
    await lab.gone()
