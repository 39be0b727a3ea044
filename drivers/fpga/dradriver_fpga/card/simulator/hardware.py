"""Simulated cards with the interface of real cards."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias

from dradriver_fpga.card.errors import (
    BusyError,
    CardGoneError,
    FpgaNotSupportedError,
    IncompatibleError,
    ManagerFailedError,
    ProgrammingTimedOutError,
)
from dradriver_fpga.card.faults import FaultKind
from dradriver_fpga.card.hardware import FpgaHardware
from dradriver_fpga.card.images import Image, load_image, require_platform
from dradriver_fpga.card.simulator.catalog import CATALOG, FpgaModel
from dradriver_fpga.card.simulator.progress import update_progress
from dradriver_fpga.card.simulator.state import (
    ActiveProgramming,
    CardState,
    FpgaMemoryStore,
    FpgaNodeState,
    FpgaStore,
    ReportedFault,
)
from dradriver_fpga.card.simulator.views import (
    card_id,
    find_card,
    find_present_card,
    make_blank_regions,
    parse_region_number,
    to_card,
)
from dradriver_fpga.card.values import Bitstream, FpgaCard, ManagerState, Platform, normalize_id

__all__ = ["Hook", "SimulatedFpgas"]

Moment: TypeAlias = Literal["before", "after"]
Hook: TypeAlias = Callable[[str, Moment], None]
"""Called before and after each call takes effect, with the call's name.

If it raises an exception, the call fails with this exception.
"""

_POLL_SECONDS: Final = 0.02
"""Seconds between two reads of hardware that is busy or that another process may change."""


def _inject_nothing(_call: str, _moment: Moment) -> None:
    """Default hook: does nothing."""


class SimulatedFpgas(FpgaHardware):
    """FPGAs of the catalog.

    Args:
        models: the model of each card, as a name in the catalog. If the store already contains cards, the
            store's cards are used instead.
        store: holds the state. A `FpgaFileStore` outlives the process and is shared with other processes.
        speed: factor by which programming is faster than on a real card.
        hook: injects faults in tests.
    """

    def __init__(
        self,
        models: Sequence[str] = ("pac",),
        *,
        store: FpgaStore | None = None,
        speed: float = 1.0,
        hook: Hook = _inject_nothing,
    ) -> None:
        self.hook = hook
        self._store = store or FpgaMemoryStore()
        self._speed = speed
        self._seen_changes = 0
        with self._store.change() as state:
            if not state.cards:
                for model in models:
                    _add(state, model)

    def open(self) -> None:
        """See `FpgaHardware`."""
        with self._call("open") as state:
            self._seen_changes = state.changes

    def close(self) -> None:
        """See `FpgaHardware`."""

    def cards(self) -> tuple[FpgaCard, ...]:
        """See `FpgaHardware`."""
        with self._call("cards") as state:
            found = (to_card(card, order) for order, card in enumerate(state.cards) if card.present)
            return tuple(sorted(found, key=lambda card: card.id))

    def program(self, target: str, bitstream: Bitstream, *, timeout: float) -> None:
        """See `FpgaHardware`."""
        end = time.monotonic() + timeout
        with self._call("program") as state:
            card = find_present_card(state, target)
            if card.load is not None:
                raise BusyError(f"the card of {target} is being programmed")
            model = CATALOG[card.model]
            if model.shell_mechanism is None:
                raise FpgaNotSupportedError(f"{target}: this node cannot program it")
            image = load_image(bitstream, model.max_bytes)
            card.load = self._load(card, model, target, bitstream, image)
            _invalidate(card, target)
            removals = card.removals
        # If the process dies here, the hardware continues, but the content is unknown afterwards.
        self._wait_for(target, removals, end)
        with self._call("programmed") as state:
            card = _same_card(state, target, removals)
            number = parse_region_number(card, target)
            if number is None:
                card.bitstream = bitstream.sha256.lower()
            else:
                card.regions[number].bitstream = bitstream.sha256.lower()

    def invalidate(self, card: str) -> None:
        """See `FpgaHardware`."""
        with self._call("forget") as state:
            _invalidate(find_present_card(state, card), card)

    def wait_change(self, timeout: float) -> bool:
        """See `FpgaHardware`."""
        end = time.monotonic() + timeout
        while True:
            with self._store.change() as state:
                seen_changes, self._seen_changes = self._seen_changes, state.changes
            left = end - time.monotonic()
            if seen_changes != self._seen_changes or left <= 0:
                return seen_changes != self._seen_changes
            time.sleep(min(_POLL_SECONDS, left))

    # Changes of the hardware, for tests and demonstrations.

    def plug(self, model: str) -> str:
        """Plug in a new card and return its ID.

        Args:
            model: name in the catalog.

        Returns:
            The ID of the card.
        """
        with self._store.change() as state:
            return card_id(_add(state, model))

    def unplug(self, card: str) -> None:
        """Pull a card. Its content is lost.

        Args:
            card: ID of the card.
        """
        with self._store.change() as state:
            found = find_card(state, card)
            found.present, found.load, found.bitstream = False, None, ""
            found.regions, found.manager = make_blank_regions(CATALOG[found.model]), ManagerState.OPERATING
            found.removals += 1
            state.changes += 1

    def replug(self, card: str) -> None:
        """Plug in a pulled card again at its previous location.

        Args:
            card: ID of the card.
        """
        with self._store.change() as state:
            find_card(state, card).present = True
            state.changes += 1

    def fail_next(self, target: str, state: ManagerState) -> None:
        """Make the next programming of a region or a card end in an error state.

        Args:
            target: ID of a region or a card.
            state: error state of the manager.
        """
        with self._store.change() as node:
            find_card(node, target).faults[target] = state

    def hang_next(self, target: str) -> None:
        """Make the next programming of a region or a card hang.

        Args:
            target: ID of a region or a card.
        """
        with self._store.change() as state:
            find_card(state, target).faults[target] = None

    def release(self, target: str) -> None:
        """Abort the programming of a card.

        Args:
            target: ID of a region or a card.
        """
        with self._store.change() as state:
            card = find_card(state, target)
            card.load, card.manager = None, ManagerState.UNKNOWN

    def silence_logic(self, region: str) -> None:
        """Make a region's logic stop answering until it is programmed again.

        Args:
            region: ID of the region.
        """
        with self._store.change() as state:
            card = find_card(state, region)
            card.regions[int(region.rsplit("/", 1)[1])].silent = True

    def report_fault(self, target: str, kind: FaultKind) -> None:
        """Make a card report a fault of a region or of the whole card.

        Args:
            target: ID of a region or a card.
            kind: kind of the fault.
        """
        with self._store.change() as state:
            card = find_card(state, target)
            card.reported.append(ReportedFault(kind, parse_region_number(card, target)))

    def clear_faults(self, card: str) -> None:
        """Make a card report no fault.

        Args:
            card: ID of the card.
        """
        with self._store.change() as state:
            find_card(state, card).reported = []

    @contextmanager
    def _call(self, name: str) -> Iterator[FpgaNodeState]:
        self.hook(name, "before")
        with self._store.change() as state:
            for card in state.cards:
                update_progress(card, time.time())
            yield state
        self.hook(name, "after")

    def _load(
        self, card: CardState, model: FpgaModel, target: str, bitstream: Bitstream, image: Image
    ) -> ActiveProgramming:
        shell = None
        if parse_region_number(card, target) is None:
            made_for = image.interface_id or normalize_id(bitstream.interface_id)
            found = model.find_shell(made_for)
            if found is None:
                raise IncompatibleError(
                    f"bitstream {bitstream.path}: {target} has no shell of interface {made_for!r}"
                )
            shell = model.shells.index(found)
        else:
            present = model.shells[card.shell]
            interfaces = (present.interface_id, *present.other_interface_ids) if present.interface_id else ()
            require_platform(image, bitstream, Platform(interfaces, present.name, present.timestamp), target)
        seconds: float | None = image.size / model.rate / self._speed
        fault = card.faults.pop(target, ManagerState.OPERATING)
        if fault is None:
            seconds = None
        return ActiveProgramming(
            target=target,
            started_at=time.time(),
            seconds=seconds,
            afu_id=image.afu_id if shell is None else model.afu,
            shell=shell,
            error_state=fault if fault is not None and fault.is_error else None,
        )

    def _wait_for(self, target: str, removals: int, end: float) -> None:
        while True:
            with self._call("watch") as state:
                card = _same_card(state, target, removals)
                if not card.manager.is_busy:
                    break
            if time.monotonic() >= end:
                self.release(target)
                raise ProgrammingTimedOutError(
                    f"{target} did not operate in time, its manager is in state {card.manager.value!r}"
                )
            time.sleep(_POLL_SECONDS)
        if card.manager is not ManagerState.OPERATING:
            raise ManagerFailedError(f"programming {target} ended in {card.manager.value!r}", card.manager)


def _add(state: FpgaNodeState, name: str) -> CardState:
    model = CATALOG[name]
    place = sum(card.model == name for card in state.cards)
    card = CardState(name, place, make_blank_regions(model))
    state.cards.append(card)
    state.changes += 1
    return card


def _same_card(state: FpgaNodeState, target: str, removals: int) -> CardState:
    """Return the card, which must not have been pulled since the caller read `removals`.

    Raises:
        CardGoneError: the card was pulled, even if it was plugged in again.
    """
    card = find_card(state, target)
    if card.removals != removals:
        raise CardGoneError(f"the card of {target} was removed while it was programmed")
    return card


def _invalidate(card: CardState, target: str) -> None:
    """Mark the content of the target, and of everything below it, as unknown."""
    number = parse_region_number(card, target)
    if number is None:
        card.bitstream = ""
    for region in card.regions if number is None else [card.regions[number]]:
        region.bitstream = ""
