"""The cards of a node with their devices and their health. The cards are opened once and read repeatedly."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.card import CardError, Cards, Event, EventKind, Hardware, ResetRequiredError
from dradriver_gpu_mig.health import (
    LOOKS,
    Finding,
    count_losses,
    found_in,
    gone,
    lost,
    read_notes,
    reports,
    reset_required,
    says_lost,
    still_true,
    taints,
    with_news,
    write_notes,
)
from dradriver_gpu_mig.instances import InstanceReconciler, Place, Record, RecordStore, State
from dradriver_gpu_mig.offer import Marks, Offer, ambiguous, named, offers, pool
from dradriver_gpu_mig.settings import Mode, Settings
from dradriver_gpu_mig.snapshot import Card, Instance, Survey, look, look_at

__all__ = ["Node"]

_log: Final = logging.getLogger(__name__)


class Node:
    """The GPUs of one node: `async with Node(...)`.

    Args:
        hardware: the cards.
        settings: the operator's settings.
        mode: kind of devices that the node offers.
        folder: folder of the records and the findings.
        boot: ID of the boot.
    """

    def __init__(self, hardware: Hardware, settings: Settings, mode: Mode, folder: Path, boot: str) -> None:
        self.cards = Cards(hardware)
        self.record_store = RecordStore(folder / "devices", boot)
        self.reconciler = InstanceReconciler(self.cards, self.record_store)
        self.settings = settings
        self._mode = mode
        self._notes, self._boot = folder / "findings.json", boot
        self._findings: list[Finding] = []
        self._gone: list[Finding] = []
        self._known: dict[str, Card] = {}
        self._offered: dict[str, Offer] = {}
        self._losses: dict[str, int] = {}
        self._refusals: Mapping[str, CardError] = {}
        self._writing = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Node":
        self._findings = await asyncio.to_thread(read_notes, self._notes, self._boot)
        await self._stack.enter_async_context(self.cards)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def find(self, device: str) -> Offer | None:
        """Return a device if the node can offer it now, else None. The cards are read again.

        Raises:
            CardError: the device's GPU exists but cannot be read.
        """
        known = self._known
        survey = await self.cards.call(lambda hardware: look(hardware, known))
        offered = self._offered.get(device)
        refusal = survey.refusals.get(offered.card.gpu.uuid) if offered is not None else None
        if refusal is not None and not says_lost(refusal):
            raise refusal
        there = (offer for card in survey.cards.values() for offer in self._offers(card))
        return next((offer for offer in there if offer.name == device), None)

    async def discover(self) -> dra.Pool:
        """Return the pool of devices now. Incomplete instances are destroyed first, and all cards are read."""
        await self.reconciler.recover()
        before = await asyncio.to_thread(self.record_store.all)
        known = self._known
        survey = await self.cards.call(lambda hardware: look(hardware, known))
        after = await asyncio.to_thread(self.record_store.all)
        await self._learn(survey)
        # A record added or removed during the look marks neither a foreign instance nor a missing one.
        ours = {(each.gpu, each.place) for each in (*before, *after)}
        foreign = {
            uuid: [i.gpu_instance for i in card.instances if (uuid, _place(i)) not in ours]
            for uuid, card in self._known.items()
        }
        offered = [offer for card in self._known.values() for offer in self._offers(card)]
        missed = list(self._missed([record for record in after if record in before], survey))
        self._gone = [finding for _, finding in missed]
        self._offered = {offer.name: offer for offer in offered}
        for offer, _ in missed:
            self._offered.setdefault(offer.name, offer)
        by_gpu: dict[str, list[Offer]] = defaultdict(list)
        for offer in self._offered.values():
            by_gpu[offer.card.gpu.uuid].append(offer)
        marks = Marks(taints(self._wrong(), self._offered.values()), foreign)
        return pool(by_gpu, survey.system, marks)

    async def hear(self, event: Event) -> bool:
        """Record the finding that an event means for devices.

        Returns:
            Whether the devices have to be discovered again. It is False for faults of programs, which can come
            by the hundred.
        """
        now = time.time()
        if found_in(event, None, self.settings, now) is None:
            return event.kind in {EventKind.GPU_LOST, EventKind.MIG_CHANGED}
        finding = found_in(event, await self._card_of(event), self.settings, now)
        if finding is not None:
            _log.warning("%s: taint %s, effect %s", finding.message, finding.key, finding.effect)
            await self._keep(with_news(self._findings, finding))
        return finding is not None

    async def _card_of(self, event: Event) -> Card | None:
        """Return the GPU of an event.

        For an error of an instance the GPU is read now: the instance may be newer than the last look.
        """
        known = self._known.get(event.gpu)
        if known is None or event.gpu_instance is None:
            return known
        try:
            return await self.cards.call(lambda hardware: look_at(hardware, known.gpu, known))
        except CardError:
            return known  # the next look reports why it does not answer

    def reports(self) -> Sequence[dra.DeviceHealth]:
        """Return the health of every device of the last discovery."""
        return reports(self._wrong(), self._offered.values(), self._refusals)

    @property
    def unsure(self) -> bool:
        """Whether a GPU was found lost and another look has to confirm it."""
        return any(count < LOOKS for count in self._losses.values())

    def _missed(self, held: Iterable[Record], survey: Survey) -> Iterator[tuple[Offer, Finding]]:
        """Yield allocated devices that no longer exist. They stay published so that their taint is visible."""
        for record in held:
            card = survey.cards.get(record.gpu)
            if card is not None and record.state is State.READY:
                offer = named(card, self._mode, record.device)
                if offer is not None and (finding := gone(offer)) is not None:
                    yield offer, finding

    def _offers(self, card: Card) -> list[Offer]:
        return offers(card, self._mode, self.settings.mig_switching)

    def _wrong(self) -> list[Finding]:
        sick = {uuid for uuid, card in self._known.items() if card.needs_reset}
        sick |= {uuid for uuid, error in self._refusals.items() if isinstance(error, ResetRequiredError)}
        return [*self._findings, *self._gone, *map(reset_required, sorted(sick)), *map(lost, self._lost)]

    @property
    def _lost(self) -> list[str]:
        return sorted(gpu for gpu, count in self._losses.items() if count == LOOKS)

    async def _learn(self, survey: Survey) -> None:
        """Take over a survey. A GPU that does not answer stays published unchanged; a lost GPU gets a taint."""
        before = self._lost
        self._losses = count_losses(self._losses, survey)
        self._tell(survey)
        for gpu in self._lost:
            if gpu not in before:
                _log.error("%s is lost", gpu)
        back = set(before).difference(self._lost)
        for gpu in sorted(back):
            _log.warning("%s is back: what was wrong with it is over", gpu)
        self._known = {**self._known, **survey.cards}
        await self._keep(still_true(self._findings, back, survey.cards, self.settings, time.time()))

    def _tell(self, survey: Survey) -> None:
        """Log the GPUs that do not answer and those that answer again: each change once, not at every look."""
        for gpu, error in survey.refusals.items():
            told = self._refusals.get(gpu)
            if told is None or (type(told), told.code) != (type(error), error.code):
                _log.warning("%s can't be looked at, it is taken to be as it was: %s", gpu, error)
        for gpu in sorted(self._refusals.keys() & survey.cards.keys()):
            _log.warning("%s answers again", gpu)
        self._refusals = survey.refusals
        for gpu, card in survey.cards.items():
            if card.profiles == (self._known[gpu].profiles if gpu in self._known else ()):
                continue
            for label, numbers in ambiguous(card).items():
                ids = ", ".join(map(str, numbers))
                _log.error(
                    "%s: profiles %s are not offered: devices of all of them would be called %s",
                    gpu,
                    ids,
                    label,
                )

    async def _keep(self, findings: list[Finding]) -> None:
        if findings != self._findings:
            self._findings = findings
            async with self._writing:  # writes the newest findings, never older ones
                await asyncio.to_thread(write_notes, self._notes, self._boot, self._findings)


def _place(instance: Instance) -> Place:
    return Place(instance.gpu_instance.profile_id, instance.gpu_instance.placement)
