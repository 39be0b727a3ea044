"""The search: depth first over requests and devices, in order of preference. The first allocation wins.

It visits devices in the same order as the full search (`allocator.search`), and it skips only branches that the
full search skips too. So it finds the same allocation first, and it needs at least as many steps. (The steps of
the full search's proofs do not count here.) If it decides, the full search decides the same.
"""

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from dradriver.allocator.placement.evaluation.bit_search.bit_shape import BitAlternative, BitShape
from dradriver.allocator.placement.evaluation.bit_search.layout import PoolEntry, Rank
from dradriver.allocator.placement.evaluation.bit_search.symmetry import StateKeys
from dradriver.allocator.placement.evaluation.verdicts import REFUSED, ClassChoice, ShapeFits, Verdict
from dradriver.allocator.supply.order import BINDING_RATING, Order, Preference
from dradriver.model.resource.claim import MAX_RESULTS

__all__ = ["MAX_STEPS", "search_bits"]

MAX_STEPS: Final = 400
"""Maximum number of device choices. A search that needs more gives up."""

_MAX_DEPTH: Final = 200
"""Maximum number of nested choices, well below Python's limit of recursion."""


class _GaveUpError(Exception):
    """The search needs more steps than it may take."""


def search_bits(
    shape: BitShape, pools: Sequence[PoolEntry], order: Order, max_steps: int = MAX_STEPS
) -> Verdict | None:
    """Return the verdict for a node: `ShapeFits` or `REFUSED`. None means that the search gave up.

    In a choice of the verdict, the pool is the position in `pools`.

    Args:
        shape: the claims.
        pools: the pools of the node, in the order in which they are tried. They have the blueprints of the
            layout.
        order: the order of preference.
        max_steps: maximum number of device choices.
    """
    if shape.depth > _MAX_DEPTH or any(pool.overdrawn for pool in pools):
        return None
    try:
        return _Search(shape, pools, order, max_steps).run()
    except _GaveUpError:
        return None


class _State(NamedTuple):
    """The state of a search. A deeper level gets a new state, so nothing has to be undone.

    Attributes:
        free: the available devices as bits.
        chosen: the chosen devices as bits.
        constraints: the states of the constraints.
        in_claim: number of devices that the claim of the current request has got.
    """

    free: int
    chosen: int
    constraints: tuple[int, ...]
    in_claim: int


class _Search:
    """A search for one node."""

    def __init__(self, shape: BitShape, pools: Sequence[PoolEntry], order: Order, max_steps: int) -> None:
        self._shape = shape
        self._layout = layout = shape.layout
        self._has_preferences = order.compute_preferences is not None
        self._max_steps = max_steps
        self._free = layout.join([pool.free for pool in pools])
        self._components = [pools[part.pool].states[part.number] for part in layout.parts]
        self._known_ranks: dict[int, Sequence[Rank]] = {}
        self._dead: set[Hashable] = set()
        self._steps = 0
        self._picks: list[tuple[BitAlternative, int, Preference]] = []

    def run(self) -> Verdict:
        """Return the verdict.

        Raises:
            _GaveUpError: the search needs more steps than it may take.
        """
        start = tuple([constraint.start for constraint in self._shape.constraints])
        if not self._serve(0, _State(self._free, 0, start, 0)):
            return REFUSED
        layout = self._layout
        choices = [ClassChoice(each.subrequest, *layout.locate(device)) for each, device, _ in self._picks]
        rating: Preference
        if self._has_preferences:
            sums = map(sum, zip(*[preference for _, _, preference in self._picks], strict=True))
            rating = *sums, self._free.bit_count()
        else:
            is_binding = any(layout.binding >> device & 1 for _, device, _ in self._picks)
            rating = BINDING_RATING if is_binding else ()
        return ShapeFits(rating, tuple(choices))

    def _serve(self, number: int, state: _State) -> bool:
        """Choose devices for all requests from `number` on, and return whether this succeeded."""
        if number == len(self._shape.requests):
            return True
        if self._is_hopeless(number, state):
            return False
        if self._dead and self._position(number, state) in self._dead:
            return False
        most = MAX_RESULTS - state.in_claim - self._shape.needed_later[number]
        for alternative in self._shape.requests[number].alternatives:
            if alternative.count <= most and self._choose(
                number, alternative, alternative.count, (0, 0), state
            ):
                return True
        self._dead.add(self._position(number, state))
        return False

    def _is_hopeless(self, number: int, state: _State) -> bool:
        """Return whether too few devices are available for the requests from `number` on."""
        free = state.free
        for devices, wanted in self._shape.demands[number]:
            if (devices & free).bit_count() < wanted:
                return True
        for alternatives in self._shape.alone[number]:
            if not any(self._open(each, state).bit_count() >= each.count for each in alternatives):
                return True
        return False

    def _choose(
        self, number: int, alternative: BitAlternative, missing: int, tried: tuple[int, int], state: _State
    ) -> bool:
        """Choose the missing devices of a request, and then devices for the later requests.

        Args:
            number: the number of the request.
            alternative: the alternative that serves it.
            missing: number of devices.
            tried: the position from which on devices are chosen: a rank, and the devices of this rank that
                come before the position, as bits.
            state: the state of the search.

        Returns:
            Whether this succeeded.
        """
        if not missing:
            return self._serve(number + 1, self._next_request(number, state))
        ranks = self._ranks(alternative.candidates)
        open_devices = self._open(alternative, state)
        first, before = tried
        failed: set[Hashable] = set()
        is_last = missing == 1 and number + 1 == len(self._shape.requests)
        for rank in range(first, len(ranks)):
            preference, mask = ranks[rank]
            mask &= open_devices & ~before
            before = 0
            while mask:
                lowest = mask & -mask
                mask ^= lowest
                device = lowest.bit_length() - 1
                if failed and self._choice(device, state) in failed:
                    continue
                if self._steps >= self._max_steps:
                    raise _GaveUpError
                self._steps += 1
                self._picks.append((alternative, device, preference))
                if is_last:
                    return True
                after = self._take(alternative, device, state)
                if self._choose(number, alternative, missing - 1, (rank, (lowest << 1) - 1), after):
                    return True
                self._picks.pop()
                failed.add(self._choice(device, state))
        return False

    def _next_request(self, number: int, state: _State) -> _State:
        requests = self._shape.requests
        if number + 1 == len(requests) or requests[number].claim == requests[number + 1].claim:
            return state
        return state._replace(in_claim=0)

    def _open(self, alternative: BitAlternative, state: _State) -> int:
        """Return, as bits, the devices that can be chosen now."""
        devices = alternative.candidates & state.free
        for number in alternative.constraints:
            devices &= self._shape.constraints[number].open(state.constraints[number])
        return devices

    def _take(self, alternative: BitAlternative, device: int, state: _State) -> _State:
        """Return the state after the choice of a device."""
        bit = 1 << device
        chosen, constraints = state.chosen | bit, state.constraints
        if alternative.constraints:
            joined = list(constraints)
            for number in alternative.constraints:
                joined[number] = self._shape.constraints[number].join(joined[number], device)
            constraints = tuple(joined)
        component = self._layout.part_of[device]
        if component is None:
            lost = bit
        else:
            part = self._layout.parts[component]
            lost = part.lost(self._components[component], chosen & part.mask)
        return _State(state.free & ~lost, chosen, constraints, state.in_claim + 1)

    @cached_property
    def _keys(self) -> StateKeys:
        # Most searches choose the right devices at once and need no keys.
        return StateKeys(self._shape.symmetry, self._components)

    def _position(self, number: int, state: _State) -> Hashable:
        """Return a key. If two positions have equal keys, both or none of them can be completed."""
        return number, state.in_claim, self._keys.state(state.chosen, state.constraints)

    def _choice(self, device: int, state: _State) -> Hashable:
        """Return a key. Equivalent choices have equal keys."""
        return self._keys.choice(device, state.chosen, state.constraints)

    def _ranks(self, candidates: int) -> Sequence[Rank]:
        """Return the preferences of the candidates, ascending."""
        ranks = self._known_ranks.get(candidates)
        if ranks is None:
            ranks = self._find_ranks(candidates) if self._has_preferences else [((), candidates)]
            self._known_ranks[candidates] = ranks
        return ranks

    def _find_ranks(self, candidates: int) -> Sequence[Rank]:
        free = candidates & self._free & self._layout.without_counters
        return self._layout.ranks(free, self._components, self._shape.parts[candidates])
