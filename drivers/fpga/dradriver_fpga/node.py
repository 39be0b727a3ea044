"""The cards of a node as the driver keeps them: those that are there, and those that were pulled recently."""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import dradriver as dra
from dradriver_fpga.card import Card
from dradriver_fpga.offer import Offer, offers, pool, removed, safe_without, taints
from dradriver_fpga.offer.taints import faults_of
from dradriver_fpga.settings import Settings

__all__ = ["CardInventory"]


@dataclass
class CardInventory:
    """The devices on offer, from the last read of the cards.

    It is in memory only. A card that is pulled while no process runs disappears without a taint.

    Attributes:
        settings: the operator's settings.
    """

    settings: Settings
    _cards: dict[str, Card] = field(default_factory=dict)
    _removed: dict[str, float] = field(default_factory=dict)

    def learn(self, found: Sequence[Card], now: float | None = None) -> None:
        """Take over the cards that are there at `now`. Missing ones stay for `removed_seconds`."""
        now = time.monotonic() if now is None else now
        there = {card.id: card for card in found}
        for missing in self._cards.keys() - there.keys():
            self._removed.setdefault(missing, now)
        for card in there:
            self._removed.pop(card, None)
        self._cards = dict(sorted((self._cards | there).items()))
        self.forget(now)

    def forget(self, now: float | None = None) -> None:
        """Remove the pulled cards whose time has passed."""
        now = time.monotonic() if now is None else now
        for card, since in list(self._removed.items()):
            if now - since >= self.settings.removed_seconds:
                del self._removed[card], self._cards[card]

    def due(self, now: float | None = None) -> float | None:
        """Return the seconds until the next pulled card is removed; None if no card was pulled."""
        now = time.monotonic() if now is None else now
        ends = (since + self.settings.removed_seconds for since in self._removed.values())
        return max(0.0, min(ends, default=now) - now) if self._removed else None

    def pool(self) -> dra.Pool:
        """Return the pool of devices."""
        offered = self._offered()
        marks = taints(offer for each in offered for offer in each)
        for each in offered:
            if each[0].card.id in self._removed:
                marks |= removed(each[0].card, each)
        return pool(offered, marks)

    def safe_without(self, dropped: Collection[str]) -> dra.Pool:
        """Return the pool for an API server that drops fields."""
        return safe_without(dropped, self.pool(), self._offered())

    def reports(self) -> list[dra.DeviceHealth]:
        """Return the health of every device."""
        return [self._report(offer) for each in self._offered() for offer in each]

    def _offered(self) -> list[list[Offer]]:
        found = (
            offers(card, self.settings.shells, management=self.settings.management_devices)
            for card in self._cards.values()
        )
        return [each for each in found if each]

    def _report(self, offer: Offer) -> dra.DeviceHealth:
        wrong = "; ".join(self._wrong(offer))
        health = dra.Health.UNHEALTHY if wrong else dra.Health.HEALTHY
        return dra.DeviceHealth(offer.name, health, wrong)

    def _wrong(self, offer: Offer) -> Iterator[str]:
        if offer.card.id in self._removed:
            yield f"{offer.card.id} was pulled"
        yield from (fault.message for fault in faults_of(offer))
