"""Waits for changes of claims end in each case in which the kubelet must be answered."""

import asyncio

from msgspec.structs import replace

from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.devices.attachment_wait import ClaimChanges
from dradriver.node.state.records import ClaimRef
from dradriver.testing import builders

CLAIM = builders.claim()


class Stored:
    """The claim in an API server."""

    def __init__(self) -> None:
        self.claim = CLAIM
        self.reads = 0

    async def look_up(self, _ref: ClaimRef) -> ResourceClaim:
        self.reads += 1
        return self.claim


def later() -> float:
    return asyncio.get_running_loop().time() + 3600


async def test_a_changed_claim_is_returned_without_a_notification() -> None:
    stored = Stored()
    waiting = asyncio.create_task(ClaimChanges(stored.look_up).wait(CLAIM, later()))
    while not stored.reads:
        await asyncio.sleep(0)
    assert not waiting.done()
    stored.claim = replace(CLAIM, metadata=replace(CLAIM.metadata, resource_version="2"))
    assert await waiting is stored.claim


async def test_an_unchanged_claim_is_waited_for_until_the_deadline() -> None:
    now = asyncio.get_running_loop().time()
    assert await ClaimChanges(Stored().look_up).wait(CLAIM, now) is None


async def test_a_process_that_stops_ends_its_waits() -> None:
    changes = ClaimChanges(Stored().look_up)
    waiting = asyncio.create_task(changes.wait(CLAIM, later()))
    await asyncio.sleep(0)
    changes.close()
    assert await waiting is None
    assert await changes.wait(CLAIM, later()) is None
