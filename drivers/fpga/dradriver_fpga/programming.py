"""Programs a device with the content that its claim requests.

The content of the card is read before each step, so the work can restart at any moment. If a process dies, it
leaves a region with unknown content, and the next process programs the region again.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Coroutine
from functools import partial
from typing import Final

import msgspec

from dradriver_fpga.bitstreams import (
    Approval,
    BitstreamApprover,
    BitstreamCache,
    BitstreamError,
    FailedBitstreams,
    PolicyRequest,
    require_allowed,
)
from dradriver_fpga.card import (
    Bitstream,
    BusyError,
    FpgaCards,
    FpgaError,
    IncompatibleError,
    ManagerFailedError,
    ProgrammingTimedOutError,
    TargetNotFoundError,
    ToolFailedError,
    normalize_id,
)
from dradriver_fpga.configs import RequestedBitstream
from dradriver_fpga.names import UnknownNameError
from dradriver_fpga.offer import FpgaDeviceKind, FpgaOffer, ProgrammingStep, list_offers, next_step
from dradriver_fpga.settings import FpgaSettings

__all__ = ["Programmer"]

_log: Final = logging.getLogger(__name__)

_MAX_STEPS: Final = 4
"""Maximum number of steps: programming a shell and a region, and both again if another program interferes."""
_BUSY_RETRY_SECONDS: Final = 0.25


class Programmer:
    """Programs the devices of a node. Call `await close()` at the end.

    Args:
        cards: the cards.
        cache: the fetched bitstreams.
        failed: the bitstreams that failed on cards.
        settings: the operator's settings.
    """

    def __init__(
        self, cards: FpgaCards, cache: BitstreamCache, failed: FailedBitstreams, settings: FpgaSettings
    ) -> None:
        self._cards = cards
        self._cache = cache
        self._failed = failed
        self._settings = settings
        self._approver = BitstreamApprover(settings)
        self._policy = settings.bitstreams.policy
        self._shells = [shell.bitstream for shell in settings.shells]
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def find(self, name: str) -> FpgaOffer:
        """Return the present state of a device.

        Args:
            name: name of the device.

        Raises:
            TargetNotFoundError: the device does not exist.
        """
        for card in await self._cards.read():
            shells, management = self._settings.shells, self._settings.management_devices
            sharing = self._settings.sharing.claims_per_slot
            offers = list_offers(card, shells, management=management, include_unknown=True, sharing=sharing)
            for offer in offers:
                if offer.name == name:
                    return offer
        raise TargetNotFoundError(f"device {name} no longer exists")

    async def ensure(self, name: str, bitstream: RequestedBitstream | None, namespace: str) -> FpgaOffer:
        """Program the device if it does not have the requested content, then return it.

        If the caller is cancelled, it returns at once, but the programming continues.

        Args:
            name: name of the device.
            bitstream: the requested bitstream; None: any content under the device's shell.
            namespace: namespace of the claim.

        Raises:
            BitstreamError: the bitstream is not available or not allowed.
            FpgaError: the card rejects the bitstream or fails.
        """
        bitstream = self._resolve_name(bitstream)
        digest = bitstream.digest if bitstream is not None else ""
        approval = self._approver.approve(bitstream) if bitstream is not None else Approval.LISTED
        for _ in range(_MAX_STEPS):
            offer = await self.find(name)
            step = next_step(offer, digest)
            if bitstream is not None or offer.shell is not None or offer.kind is FpgaDeviceKind.MANAGEMENT:
                require_allowed(_make_policy_request(offer, bitstream, namespace), self._policy)
            if offer.kind is FpgaDeviceKind.MANAGEMENT:
                return await self._prepare_management(offer, bitstream)
            if step is ProgrammingStep.NOTHING:
                return offer
            if step is ProgrammingStep.SHELL and offer.shell is not None:
                await self._program_shared(offer.card.id, offer, offer.shell.bitstream, namespace)
            elif bitstream is not None:
                _require_compatible(offer, bitstream)
                self._require_approved_for(offer, bitstream, approval)
                await self._require_not_failed(bitstream)
                target = offer.region.id if offer.region else offer.card.id
                try:
                    await self._program_shared(
                        target, offer, bitstream, namespace, covers_interface=approval.covers_interface
                    )
                except FpgaError as error:
                    if _may_be_caused_by_bitstream(error):
                        await self._require_not_failed(bitstream)
                    raise
        raise FpgaError(
            f"device {name} was programmed {_MAX_STEPS} times and does not have the requested content"
        )

    def _resolve_name(self, bitstream: RequestedBitstream | None) -> RequestedBitstream | None:
        """Return the bitstream with the ID of its interface, for which a claim may use a name of the settings.

        Raises:
            BitstreamError: the settings do not have this name.
        """
        if bitstream is None:
            return None
        try:
            interface = self._settings.names.resolve_interface(bitstream.interface_id)
        except UnknownNameError as error:
            raise BitstreamError(f"{bitstream.location}: {error}", "UnknownName") from error
        return msgspec.structs.replace(bitstream, interface_id=interface)

    async def _prepare_management(self, offer: FpgaOffer, bitstream: RequestedBitstream | None) -> FpgaOffer:
        """Return a card's management device.

        The user of this device can program anything, so the card's content is marked as unknown. If the process
        dies after this mark, the next prepare repeats the mark, and regions are programmed again.
        """
        if bitstream is not None:
            raise BitstreamError(
                f"device {offer.name} accepts no bitstream: its user programs the card", "NotSupported"
            )
        await self._cards.invalidate(offer.card.id)
        return offer

    async def close(self) -> None:
        """Stop waiting for running programming. The card continues to program."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _require_not_failed(self, bitstream: RequestedBitstream) -> None:
        """Check that a bitstream did not fail twice.

        Raises:
            BitstreamError: the bitstream failed twice, so the bitstream is at fault and not the card.
        """
        if reason := await asyncio.to_thread(self._failed.find_rejection, bitstream.digest, time.time()):
            raise BitstreamError(f"{bitstream.location}: {reason}", "FailedTwice")

    def _require_approved_for(
        self, offer: FpgaOffer, bitstream: RequestedBitstream, approval: Approval
    ) -> None:
        """Check that the approval suffices for writing a shell. No signature states that a file is a shell.

        Raises:
            BitstreamError: the file may be written only to regions.
        """
        is_signed = approval in {Approval.SIGNED, Approval.SIGNED_FOR_INTERFACE}
        is_shell = offer.kind is FpgaDeviceKind.CARD and offer.card.keeps_shell
        if is_shell and is_signed and not self._policy:
            raise BitstreamError(
                f"{bitstream.location} may not be written to the whole card {offer.name}: a signature is not "
                f"enough for a shell, so bitstreams.digests must list it, or a rule of bitstreams.policy must "
                f"have the type card",
                "NotAllowed",
            )

    async def _program_shared(
        self,
        target: str,
        offer: FpgaOffer,
        bitstream: RequestedBitstream,
        namespace: str,
        *,
        covers_interface: bool = True,
    ) -> None:
        """Wait for a task that programs the target.

        The task outlives its callers, and equal calls share the task.
        """
        key = (target, bitstream.digest)
        task = self._tasks.get(key)
        if task is None:
            coroutine: Coroutine[None, None, None] = self._program(
                target, offer, bitstream, namespace, covers_interface=covers_interface
            )
            task = asyncio.create_task(coroutine, name=f"program {target}")
            self._tasks[key] = task
            task.add_done_callback(partial(self._forget, key))
        await asyncio.shield(task)

    def _forget(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # retrieves the error, because all callers may have been cancelled

    async def _program(
        self,
        target: str,
        offer: FpgaOffer,
        bitstream: RequestedBitstream,
        namespace: str,
        *,
        covers_interface: bool,
    ) -> None:
        async with self._cache.file(bitstream, namespace) as path, self._locks[offer.card.id]:
            interface = normalize_id(bitstream.interface_id)
            file = Bitstream(path, bitstream.digest, interface, covers_interface)
            _log.info("programming %s with %s (sha256 %s)", target, bitstream.location, bitstream.digest)
            try:
                if not await self._program_when_idle(target, file, offer):
                    return
            except FpgaError as error:
                if _may_be_caused_by_bitstream(error) and bitstream not in self._shells:
                    await asyncio.to_thread(self._failed.add, bitstream.digest, str(error), time.time())
                raise
            await asyncio.to_thread(self._failed.remove, bitstream.digest, time.time())
            _log.info("%s is programmed", target)

    async def _program_when_idle(self, target: str, bitstream: Bitstream, offer: FpgaOffer) -> bool:
        """Wait until programming by an earlier process ends, then program the target.

        The content that the earlier process wrote into a region is unknown. A shell is known: if the earlier
        process wrote one, the target is not programmed.

        Args:
            target: ID of the region or card.
            bitstream: the file.
            offer: the device as it was when the bitstream was chosen.

        Returns:
            Whether the target was programmed.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._settings.program_seconds
        while True:
            try:
                await self._cards.program(target, bitstream, timeout=max(1.0, deadline - clock()))
            except BusyError:
                if clock() >= deadline:
                    raise
                await asyncio.sleep(_BUSY_RETRY_SECONDS)
                if (await self.find(offer.name)).shell != offer.shell:
                    return False
            else:
                return True


def _make_policy_request(
    offer: FpgaOffer, bitstream: RequestedBitstream | None, namespace: str
) -> PolicyRequest:
    card = offer.card
    return PolicyRequest(
        namespace, offer.name, offer.kind.value, offer.interface_id, f"{card.vendor}:{card.device}", bitstream
    )


def _may_be_caused_by_bitstream(error: FpgaError) -> bool:
    """Return whether the bitstream may have caused a failure of a card that was present and writable."""
    is_programming_error = isinstance(error, ManagerFailedError | ProgrammingTimedOutError | ToolFailedError)
    return is_programming_error or type(error) is FpgaError


def _require_compatible(offer: FpgaOffer, bitstream: RequestedBitstream) -> None:
    """Check facts that are known before the file is fetched.

    Raises:
        BitstreamError: the device accepts no bitstream.
        IncompatibleError: the bitstream was made for another interface than the device's.
    """
    has_neighbors = offer.region is not None and len(offer.region.slots) > 1
    if offer.kind is FpgaDeviceKind.SLOT and (offer.is_shared or has_neighbors):
        message = (
            f"device {offer.name} does not have {bitstream.location}, and its region is shared: claim a region"
        )
        raise BitstreamError(message, "SlotHoldsAnother")
    made_for = normalize_id(bitstream.interface_id)
    if (
        offer.kind is not FpgaDeviceKind.CARD
        and made_for
        and offer.interface_ids
        and made_for not in offer.interface_ids
    ):
        present = " and ".join(offer.interface_ids)
        message = f"{bitstream.location} is for interface {made_for}, device {offer.name} has {present}"
        raise IncompatibleError(message)
