"""Simulated cards with the interface of real ones."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias

from dradriver_fpga.card.errors import (
    BusyError,
    CardGoneError,
    IncompatibleError,
    ManagerFailedError,
    ProgrammingTimedOutError,
)
from dradriver_fpga.card.images import Image, load_image, require_interface
from dradriver_fpga.card.simulator.catalog import CATALOG, CardModel
from dradriver_fpga.card.simulator.progress import settle
from dradriver_fpga.card.simulator.state import CardState, Load, MemoryStore, NodeState, Store
from dradriver_fpga.card.simulator.views import (
    blank_regions,
    card_id,
    card_of,
    find_card,
    present_card,
    region_number,
)
from dradriver_fpga.card.values import Bitstream, Card, ManagerState, normal_id

__all__ = ["Hook", "SimulatedHardware"]

Moment: TypeAlias = Literal["before", "after"]
Hook: TypeAlias = Callable[[str, Moment], None]
"""Called with the name of each call before and after it takes effect. An exception becomes the call's error."""

_LOOK: Final = 0.02
"""Seconds between two reads of hardware that is busy or that another process may change."""


def _pass(_call: str, _moment: Moment) -> None:
    """Cause no fault."""


class SimulatedHardware:
    """FPGAs of the catalog.

    Args:
        models: for each card one name of the catalog. Content of the store takes precedence.
        store: holds the state. A `FileStore` outlives the process and is shared with other processes.
        speed: factor by which programming is faster than on a real card.
        hook: injects faults in tests.
    """

    def __init__(
        self,
        models: Sequence[str] = ("pac",),
        *,
        store: Store | None = None,
        speed: float = 1.0,
        hook: Hook = _pass,
    ) -> None:
        self.hook = hook
        self._store = store or MemoryStore()
        self._speed = speed
        self._heard = 0
        with self._store.change() as state:
            if not state.cards:
                for model in models:
                    _add(state, model)

    def open(self) -> None:
        """See `Hardware`."""
        with self._call("open") as state:
            self._heard = state.changes

    def close(self) -> None:
        """See `Hardware`."""

    def cards(self) -> tuple[Card, ...]:
        """See `Hardware`."""
        with self._call("cards") as state:
            found = (card_of(card, order) for order, card in enumerate(state.cards) if card.present)
            return tuple(sorted(found, key=lambda card: card.id))

    def program(self, target: str, bitstream: Bitstream, *, timeout: float) -> None:
        """See `Hardware`."""
        end = time.monotonic() + timeout
        with self._call("program") as state:
            card = present_card(state, target)
            if card.load is not None:
                raise BusyError(f"the card of {target} is being programmed")
            model = CATALOG[card.model]
            image = load_image(bitstream, model.largest)
            card.load = self._load(card, model, target, bitstream, image)
            _forget(card, target)
            pulls = card.pulls
        # If the process dies here, the hardware continues, but the content is unknown afterwards.
        self._wait_for(target, pulls, end)
        with self._call("programmed") as state:
            card = _same_card(state, target, pulls)
            number = region_number(card, target)
            if number is None:
                card.bitstream = bitstream.sha256.lower()
            else:
                card.regions[number].bitstream = bitstream.sha256.lower()

    def forget(self, card: str) -> None:
        """See `Hardware`."""
        with self._call("forget") as state:
            _forget(present_card(state, card), card)

    def wait_change(self, timeout: float) -> bool:
        """See `Hardware`."""
        end = time.monotonic() + timeout
        while True:
            with self._store.change() as state:
                heard, self._heard = self._heard, state.changes
            left = end - time.monotonic()
            if heard != self._heard or left <= 0:
                return heard != self._heard
            time.sleep(min(_LOOK, left))

    # Changes of the hardware, for tests and demonstrations.

    def plug(self, model: str) -> str:
        """Plug in a new card and return its ID."""
        with self._store.change() as state:
            return card_id(_add(state, model))

    def unplug(self, card: str) -> None:
        """Pull a card. Its content is lost."""
        with self._store.change() as state:
            found = find_card(state, card)
            found.present, found.load, found.bitstream = False, None, ""
            found.regions, found.manager = blank_regions(CATALOG[found.model]), ManagerState.OPERATING
            found.pulls += 1
            state.changes += 1

    def replug(self, card: str) -> None:
        """Plug a pulled card in again at the same place."""
        with self._store.change() as state:
            find_card(state, card).present = True
            state.changes += 1

    def fail_next(self, target: str, state: ManagerState) -> None:
        """Make the next programming of a region or a card end in this error state."""
        with self._store.change() as node:
            find_card(node, target).faults[target] = state

    def hang_next(self, target: str) -> None:
        """Make the next programming of a region or a card hang."""
        with self._store.change() as state:
            find_card(state, target).faults[target] = None

    def release(self, target: str) -> None:
        """Abort the programming of a card."""
        with self._store.change() as state:
            card = find_card(state, target)
            card.load, card.manager = None, ManagerState.UNKNOWN

    def spoil(self, region: str) -> None:
        """Make a region's logic stop answering until it is programmed again."""
        with self._store.change() as state:
            card = find_card(state, region)
            card.regions[int(region.rsplit("/", 1)[1])].silent = True

    @contextmanager
    def _call(self, name: str) -> Iterator[NodeState]:
        self.hook(name, "before")
        with self._store.change() as state:
            for card in state.cards:
                settle(card, time.time())
            yield state
        self.hook(name, "after")

    def _load(self, card: CardState, model: CardModel, target: str, bitstream: Bitstream, image: Image) -> Load:
        interface, shell = model.shells[card.shell].interface_id, None
        if region_number(card, target) is None:
            made_for = image.interface_id or normal_id(bitstream.interface_id)
            found = model.shell_of(made_for)
            if found is None:
                raise IncompatibleError(
                    f"bitstream {bitstream.path}: {target} has no shell of interface {made_for!r}"
                )
            interface, shell = found.interface_id, model.shells.index(found)
        require_interface(image, bitstream, interface, target)
        seconds: float | None = len(image.data) / model.rate / self._speed
        fails = card.faults.pop(target, ManagerState.OPERATING)
        if fails is None:
            seconds = None
        return Load(
            target=target,
            began=time.time(),
            seconds=seconds,
            afu_id=image.afu_id if shell is None else model.afu,
            shell=shell,
            fails=fails if fails is not None and fails.is_error else None,
        )

    def _wait_for(self, target: str, pulls: int, end: float) -> None:
        while True:
            with self._call("watch") as state:
                card = _same_card(state, target, pulls)
                if not card.manager.is_busy:
                    break
            if time.monotonic() >= end:
                self.release(target)
                raise ProgrammingTimedOutError(
                    f"{target} did not operate in time, it is at {card.manager.value!r}"
                )
            time.sleep(_LOOK)
        if card.manager is not ManagerState.OPERATING:
            raise ManagerFailedError(f"programming {target} ended in {card.manager.value!r}", card.manager)


def _add(state: NodeState, name: str) -> CardState:
    model = CATALOG[name]
    place = sum(card.model == name for card in state.cards)
    card = CardState(name, place, blank_regions(model))
    state.cards.append(card)
    state.changes += 1
    return card


def _same_card(state: NodeState, target: str, pulls: int) -> CardState:
    """Return the card if it was not pulled since."""
    card = find_card(state, target)
    if card.pulls != pulls:
        raise CardGoneError(f"the card of {target} was pulled while it was programmed")
    return card


def _forget(card: CardState, target: str) -> None:
    """Mark the content of the target, and of everything below it, as unknown."""
    number = region_number(card, target)
    if number is None:
        card.bitstream = ""
    for region in card.regions if number is None else [card.regions[number]]:
        region.bitstream = ""
