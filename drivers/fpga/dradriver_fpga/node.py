"""The driver's inventory of a node's cards: cards that are present, and cards that were pulled recently."""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import dradriver as dra
from dradriver_fpga.card import FpgaCard
from dradriver_fpga.offer import (
    FpgaOffer,
    build_pool,
    list_offers,
    make_fault_taints,
    make_removed_taints,
    select_safe_without,
)
from dradriver_fpga.offer.taints import find_faults_of
from dradriver_fpga.settings import FpgaSettings

__all__ = ["CardInventory"]


@dataclass
class CardInventory:
    """The devices on offer, from the last read of the cards.

    The inventory is in memory only. If a card is pulled while no process runs, the card disappears without a
    taint.

    Attributes:
        settings: the operator's settings.
    """

    settings: FpgaSettings
    _cards: dict[str, FpgaCard] = field(default_factory=dict)
    _removed: dict[str, float] = field(default_factory=dict)

    def update(self, cards: Sequence[FpgaCard], now: float | None = None) -> None:
        """Use the cards that are present at `now`. Missing cards stay for `removed_seconds`."""
        now = time.monotonic() if now is None else now
        by_id = {card.id: card for card in cards}
        for missing in self._cards.keys() - by_id.keys():
            self._removed.setdefault(missing, now)
        for card in by_id:
            self._removed.pop(card, None)
        self._cards = dict(sorted((self._cards | by_id).items()))
        self.remove_expired(now)

    def remove_expired(self, now: float | None = None) -> None:
        """Remove the cards that were pulled more than `removed_seconds` ago."""
        now = time.monotonic() if now is None else now
        for card, since in list(self._removed.items()):
            if now - since >= self.settings.removed_seconds:
                del self._removed[card], self._cards[card]

    def next_expiry(self, now: float | None = None) -> float | None:
        """Return the seconds until the next pulled card is removed; None if no card was pulled."""
        now = time.monotonic() if now is None else now
        ends = (since + self.settings.removed_seconds for since in self._removed.values())
        return max(0.0, min(ends, default=now) - now) if self._removed else None

    def build_pool(self) -> dra.Pool:
        """Return the pool of devices."""
        offered = self._list_offers()
        taints = make_fault_taints(offer for each in offered for offer in each)
        for each in offered:
            if each[0].card.id in self._removed:
                taints |= make_removed_taints(each[0].card, each)
        return build_pool(offered, taints, self.settings.names)

    def select_safe_without(self, dropped: Collection[str]) -> dra.Pool:
        """Return the pool for an API server that drops fields."""
        return select_safe_without(dropped, self.build_pool(), self._list_offers())

    def report_health(self) -> list[dra.DeviceHealth]:
        """Return the health of every device."""
        return [self._report(offer) for each in self._list_offers() for offer in each]

    def _list_offers(self) -> list[list[FpgaOffer]]:
        offered = (
            list_offers(
                card,
                self.settings.shells,
                management=self.settings.management_devices,
                sharing=self.settings.sharing.claims_per_slot,
                node=list(self._cards.values()),
            )
            for card in self._cards.values()
        )
        return [offers for offers in offered if offers]

    def _report(self, offer: FpgaOffer) -> dra.DeviceHealth:
        problems = "; ".join(self._list_problems(offer))
        health = dra.Health.UNHEALTHY if problems else dra.Health.HEALTHY
        return dra.DeviceHealth(offer.name, health, problems)

    def _list_problems(self, offer: FpgaOffer) -> Iterator[str]:
        if offer.card.id in self._removed:
            yield f"{offer.card.id} was pulled"
        yield from (fault.message for fault in find_faults_of(offer))
