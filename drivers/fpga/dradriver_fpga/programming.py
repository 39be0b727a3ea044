"""Programs a device with the content that its claim requests.

The content of the card is read before each step, so the work can restart at any moment. A process that dies
leaves a region with unknown content, and the next process programs it again.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Coroutine
from functools import partial
from typing import Final

from dradriver_fpga.bitstreams import BitstreamError, Cache, FailedBitstreams, require_signature
from dradriver_fpga.card import (
    Bitstream,
    BusyError,
    CardError,
    Cards,
    IncompatibleError,
    ManagerFailedError,
    ProgrammingTimedOutError,
    TargetNotFoundError,
    ToolFailedError,
    normal_id,
)
from dradriver_fpga.configs import RequestedBitstream as Wanted
from dradriver_fpga.offer import Kind, Offer, Step, next_step, offers
from dradriver_fpga.settings import Settings

__all__ = ["Programmer"]

_log: Final = logging.getLogger(__name__)

_STEPS: Final = 4
"""Largest number of steps: a shell and a region, and both again if another program interferes."""
_BUSY_SECONDS: Final = 0.25


class Programmer:
    """Programs the devices of a node. Call `await close()` at the end.

    Args:
        cards: the cards.
        cache: the fetched bitstreams.
        failed: the bitstreams that failed on cards.
        settings: the operator's settings.
    """

    def __init__(self, cards: Cards, cache: Cache, failed: FailedBitstreams, settings: Settings) -> None:
        self._cards = cards
        self._cache = cache
        self._failed = failed
        self._settings = settings
        self._keys = settings.public_keys()
        self._shells = [shell.bitstream for shell in settings.shells]
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def find(self, name: str) -> Offer:
        """Return a device as it is now, by its name.

        Raises:
            TargetNotFoundError: it does not exist.
        """
        for card in await self._cards.read():
            shells, management = self._settings.shells, self._settings.management_devices
            for offer in offers(card, shells, management=management, unknown_too=True):
                if offer.name == name:
                    return offer
        raise TargetNotFoundError(f"{name} is not there any more")

    async def ensure(self, name: str, wanted: Wanted | None, namespace: str) -> Offer:
        """Return the device when it has the requested content, at once if it has it already.

        A cancelled caller returns at once, but the programming continues.

        Args:
            name: name of the device.
            wanted: the bitstream; None: any content under the device's shell.
            namespace: namespace of the claim.

        Raises:
            BitstreamError: the bitstream is not available or not allowed.
            CardError: the card rejects the bitstream or fails.
        """
        digest = wanted.digest if wanted is not None else ""
        if wanted is not None:
            require_signature(wanted, self._keys)
        for _ in range(_STEPS):
            offer = await self.find(name)
            if offer.kind is Kind.MANAGEMENT:
                return await self._given_away(offer, wanted)
            step = next_step(offer, digest)
            if step is Step.NOTHING:
                return offer
            if step is Step.SHELL and offer.shell is not None:
                await self._joined(offer.card.id, offer, offer.shell.bitstream, namespace)
            elif wanted is not None:
                _require_fit(offer, wanted)
                await self._require_no_failures(wanted)
                target = offer.region.id if offer.region else offer.card.id
                try:
                    await self._joined(target, offer, wanted, namespace)
                except CardError as error:
                    if _may_be_the_bitstreams(error):
                        await self._require_no_failures(wanted)
                    raise
        raise CardError(f"{name} was programmed {_STEPS} times and does not hold what it should")

    async def _given_away(self, offer: Offer, wanted: Wanted | None) -> Offer:
        """Return a card's management device.

        Its user can program anything, so the card's content becomes unknown.

        If the process dies after this, the next prepare repeats it, and regions are programmed once more.
        """
        if wanted is not None:
            raise BitstreamError(
                f"{offer.name} takes no bitstream: its holder programs the card", "NotSupported"
            )
        await self._cards.forget(offer.card.id)
        return offer

    async def close(self) -> None:
        """Stop waiting for running programming. The card continues it."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _require_no_failures(self, wanted: Wanted) -> None:
        """Check that a bitstream did not fail twice.

        Raises:
            BitstreamError: it did, so the bitstream is at fault and not the card.
        """
        if refusal := await asyncio.to_thread(self._failed.refusal, wanted.digest, time.time()):
            raise BitstreamError(f"{wanted.where}: {refusal}", "FailedTwice")

    async def _joined(self, target: str, offer: Offer, wanted: Wanted, namespace: str) -> None:
        """Wait for a task that programs the target. The task outlives its callers, and equal calls share it."""
        key = (target, wanted.digest)
        task = self._running.get(key)
        if task is None:
            work: Coroutine[None, None, None] = self._program(target, offer.card.id, wanted, namespace)
            task = asyncio.create_task(work, name=f"program {target}")
            self._running[key] = task
            task.add_done_callback(partial(self._forget, key))
        await asyncio.shield(task)

    def _forget(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        del self._running[key]
        if not task.cancelled():
            task.exception()  # retrieves the error, because all callers may have been cancelled

    async def _program(self, target: str, card: str, wanted: Wanted, namespace: str) -> None:
        async with self._cache.file(wanted, namespace) as path, self._locks[card]:
            bitstream = Bitstream(path, wanted.digest, normal_id(wanted.interface_id))
            _log.info("programming %s with %s (sha256 %s)", target, wanted.where, wanted.digest)
            try:
                await self._patiently(target, bitstream)
            except CardError as error:
                if _may_be_the_bitstreams(error) and wanted not in self._shells:
                    await asyncio.to_thread(self._failed.add, wanted.digest, str(error), time.time())
                raise
            await asyncio.to_thread(self._failed.remove, wanted.digest, time.time())
            _log.info("%s is programmed", target)

    async def _patiently(self, target: str, bitstream: Bitstream) -> None:
        """Program the target, and wait for programming of an earlier process, whose content is unknown."""
        clock = asyncio.get_running_loop().time
        end = clock() + self._settings.program_seconds
        while True:
            try:
                await self._cards.program(target, bitstream, timeout=max(1.0, end - clock()))
            except BusyError:
                if clock() >= end:
                    raise
                await asyncio.sleep(_BUSY_SECONDS)
            else:
                return


def _may_be_the_bitstreams(error: CardError) -> bool:
    """Return whether the bitstream may have caused a failure of a card that was present and writable."""
    ended_badly = isinstance(error, ManagerFailedError | ProgrammingTimedOutError | ToolFailedError)
    return ended_badly or type(error) is CardError


def _require_fit(offer: Offer, wanted: Wanted) -> None:
    """Check the facts that are known before the file is fetched.

    Raises:
        BitstreamError: the device takes no bitstream.
        IncompatibleError: the device has another interface.
    """
    if offer.kind is Kind.SLOT and offer.region is not None and len(offer.region.slots) > 1:
        told = (
            f"{offer.name} holds another bitstream than {wanted.where}, and shares its region: claim a region"
        )
        raise BitstreamError(told, "SlotHoldsAnother")
    made_for = normal_id(wanted.interface_id)
    if offer.kind is not Kind.CARD and made_for and offer.interface_id and made_for != offer.interface_id:
        told = f"{wanted.where} is for interface {made_for}, {offer.name} has {offer.interface_id}"
        raise IncompatibleError(told)
