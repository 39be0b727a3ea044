"""The node's cards as the driver keeps them: opened once, looked at again and again."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import dradriver as dra
from drivers.gpu_mig.card import CardError, Cards, Event, EventKind, Hardware
from drivers.gpu_mig.health import (
    Finding,
    found_in,
    gone,
    lost,
    read_notes,
    reports,
    reset_required,
    still_true,
    taints,
    with_news,
    write_notes,
)
from drivers.gpu_mig.instances import Ledger, Maker, Place, Record, State
from drivers.gpu_mig.offer import Marks, Offer, named, offers, pool
from drivers.gpu_mig.settings import Mode, Settings
from drivers.gpu_mig.survey import Card, Instance, Survey, look, look_at

__all__ = ["Node"]

_log: Final = logging.getLogger(__name__)


class Node:
    """One node's GPUs: `async with Node(...)`.

    Args:
        hardware: the cards.
        settings: the operator's choices.
        mode: what is offered.
        folder: where records and findings are kept.
        boot: identifies the boot.
    """

    def __init__(self, hardware: Hardware, settings: Settings, mode: Mode, folder: Path, boot: str) -> None:
        self.cards = Cards(hardware)
        self.ledger = Ledger(folder / "devices", boot)
        self.maker = Maker(self.cards, self.ledger)
        self.settings = settings
        self._mode = mode
        self._notes, self._boot = folder / "findings.json", boot
        self._findings: list[Finding] = []
        self._gone: list[Finding] = []
        self._known: dict[str, Card] = {}
        self._offered: dict[str, Offer] = {}
        self._lost: set[str] = set()
        self._writing = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Node":
        self._findings = await asyncio.to_thread(read_notes, self._notes, self._boot)
        await self._stack.enter_async_context(self.cards)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def find(self, device: str) -> Offer | None:
        """A device, if the node could hand it out this very moment; it is what preparing goes by.

        Raises:
            CardError: its GPU is there and can't be looked at.
        """
        survey = await self.cards.call(look)
        known = self._offered.get(device)
        if known is not None and known.card.gpu.uuid in survey.refusals:
            raise survey.refusals[known.card.gpu.uuid]
        there = (offer for card in survey.cards.values() for offer in self._offers(card))
        return next((offer for offer in there if offer.name == device), None)

    async def discover(self) -> dra.Pool:
        """Looks at everything, takes back what was left half done, and says what is offered now."""
        await self.maker.recover()
        before = await asyncio.to_thread(self.ledger.all)
        survey = await self.cards.call(look)
        after = await asyncio.to_thread(self.ledger.all)
        await self._learn(survey)
        # A record that comes or goes meanwhile is neither somebody else's instance nor one that is gone.
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
        """Keeps what an event means for devices.

        Returns:
            Whether the devices are to be looked at again; faults of programs may come by the hundred.
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
        """The GPU; as it is now for an error of an instance, which may be younger than the last look."""
        known = self._known.get(event.gpu)
        if known is None or event.gpu_instance is None:
            return known
        try:
            return await self.cards.call(lambda hardware: look_at(hardware, known.gpu))
        except CardError:
            return known  # it is lost: that says more than its errors

    def reports(self) -> Sequence[dra.DeviceHealth]:
        """The health of everything that was offered last."""
        return reports(self._wrong(), self._offered.values())

    def _missed(self, held: Iterable[Record], survey: Survey) -> Iterator[tuple[Offer, Finding]]:
        """Devices that claims have and that are there no more: published on, for the taint to show."""
        for record in held:
            card = survey.cards.get(record.gpu)
            if card is not None and record.state is State.READY:
                offer = named(card, self._mode, record.device)
                if offer is not None and (finding := gone(offer)) is not None:
                    yield offer, finding

    def _offers(self, card: Card) -> list[Offer]:
        return offers(card, self._mode, self.settings.mig_switching)

    def _wrong(self) -> list[Finding]:
        sick = (reset_required(uuid) for uuid, card in self._known.items() if card.needs_reset)
        return [*self._findings, *self._gone, *sick, *(lost(gpu) for gpu in sorted(self._lost))]

    async def _learn(self, survey: Survey) -> None:
        """A GPU that was there and is not any more stays published, tainted, so that its pods are evicted."""
        away = self._known.keys() - survey.cards.keys() - survey.refusals.keys()
        for gpu, refusal in survey.refusals.items():
            _log.warning("%s can't be looked at, it is taken to be as it was: %s", gpu, refusal)
        away |= self._lost & survey.refusals.keys()
        back = self._lost - away
        for gpu in sorted(away - self._lost):
            _log.error("%s is lost", gpu)
        for gpu in sorted(back):
            _log.warning("%s is back: what was wrong with it is over", gpu)
        self._lost = set(away)
        self._known |= survey.cards
        await self._keep(still_true(self._findings, back, survey.cards, self.settings, time.time()))

    async def _keep(self, findings: list[Finding]) -> None:
        if findings != self._findings:
            self._findings = findings
            async with self._writing:  # what comes meanwhile is written too, and never what was before
                await asyncio.to_thread(write_notes, self._notes, self._boot, self._findings)


def _place(instance: Instance) -> Place:
    return Place(instance.gpu_instance.profile_id, instance.gpu_instance.placement)
