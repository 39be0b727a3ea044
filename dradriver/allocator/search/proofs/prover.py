"""Decides whether the remaining requests can be served at all. It may serve them in any order.

The search serves requests in their given order, because that order determines the first allocation. If large
requests come last, the search may try very many devices for the small requests before it finds that no device
is left for a large request. A proof always serves the hardest request first: the request with the fewest spare
devices. A proof usually needs few steps, whatever the answer is.

After many failures the search starts again. Before each request it now asks for a proof that this request and
all later requests can be served. If they can't, it chooses no device for them. The first allocation that the
search finds stays the same.
"""

from collections.abc import Hashable, Sequence
from functools import cached_property

from dradriver.allocator.meter import CHOICES, DEVICES, PROOFS, Meter
from dradriver.allocator.request.constraints import LIST
from dradriver.allocator.search.backtracking import Branches, Pick, backtrack, iter_choices
from dradriver.allocator.search.bounds import Bounds
from dradriver.allocator.search.plan import RequestPlan, SubrequestPlan, number_kinds
from dradriver.allocator.search.proofs.bin_fit import BinFit, Proposal
from dradriver.allocator.search.proofs.counter_bound import CounterBound
from dradriver.allocator.search.state import SearchState, UndoRecord
from dradriver.allocator.search.symmetry import Symmetry
from dradriver.model.resource.claim import MAX_RESULTS

__all__ = ["Prover"]


class Prover:
    """Computes proofs for the states of one search.

    Attributes:
        choices: the number of device choices so far.
    """

    def __init__(
        self,
        requests: Sequence[RequestPlan],
        state: SearchState,
        bounds: Bounds,
        symmetry: Symmetry,
        meter: Meter,
    ) -> None:
        self._requests = requests
        self._state = state
        self._bounds = bounds
        self._symmetry = symmetry
        self._meter = meter
        self.choices = 0
        self._kinds = number_kinds(requests)
        self._dead: set[Hashable] = set()
        self._taken: list[UndoRecord] = []
        self._served: list[tuple[int, SubrequestPlan]] = []
        self._example: list[Pick] = []
        most: dict[int, int] = {}
        for request in requests:
            largest = max((plan.count for plan in request.plans), default=0)
            most[request.claim] = most.get(request.claim, 0) + largest
        # Proofs do not check the maximum number of devices per claim, so no claim may be able to exceed it.
        # While lists are off, the order of requests matters, because a device with a list may only be the first
        # device of its constraint. Proofs change this order, so they are not used then.
        self._is_usable = max(most.values(), default=0) <= MAX_RESULTS and not any(
            LIST in values for _, values in state.rows
        )

    def is_servable(self, number: int, picks: Sequence[Pick]) -> bool:
        """Return whether the requests from `number` on can all be served now; True also if this is unknown.

        Args:
            number: the first of the remaining requests.
            picks: the devices that serve the requests before `number`.
        """
        if not self._is_usable or (self._example and self._example[: len(picks)] == picks):
            return True  # the choices so far are part of an example that serves all requests
        example = self._serve(tuple(range(number, len(self._requests))))
        if example is not None:
            self._example = [*picks, *example]
        return example is not None

    def find_unservable(self) -> int | None:
        """Find a claim that can't be served even if no other claim gets a device. Return its first request.

        Call this method only while no device is chosen. If a claim can't be served alone, it can't be served
        together with other claims. With this check, the search need not try all ways to serve the other claims.
        """
        claims: dict[int, list[int]] = {}
        for number, request in enumerate(self._requests):
            claims.setdefault(request.claim, []).append(number)
        if self._is_usable and len(claims) > 1:
            for numbers in claims.values():
                if self._serve(tuple(numbers)) is None:
                    return numbers[0]
        return None

    def lacks_room(self, plan: SubrequestPlan, count: int) -> bool:
        """Return whether counters prove that a plan can't get `count` more devices.

        Args:
            plan: the plan.
            count: the number of devices.
        """
        return self._counter_bound.lacks_room(plan, count)

    def _serve(self, numbers: tuple[int, ...]) -> list[Pick] | None:
        """Return devices that serve these requests, in the order of the requests; None if there are none."""
        proposal = self._bin_fit.propose(numbers)
        if proposal is None:
            return None
        is_served = self._follow(numbers, proposal) or backtrack(self._serve_rest(numbers))
        return self._undo_all() if is_served else None

    def _follow(self, numbers: tuple[int, ...], proposal: Proposal) -> bool:
        """Serve these requests from the proposed counters, and return True; if this fails, choose none."""
        for number in sorted(numbers, key=lambda number: number not in proposal):
            plans = self._requests[number].plans
            chosen = next((plan for plan in plans if self._take_first(plan, proposal.get(number, []))), None)
            if chosen is None:
                self._undo_all()
                return False
            self._served.append((number, chosen))
        return True

    def _take_first(self, plan: SubrequestPlan, masks: Sequence[int]) -> bool:
        """Choose the first devices that fit, one of each mask; without masks, any devices. Else choose none."""
        before = len(self._taken)
        for mask in masks if len(masks) == plan.count else [plan.mask] * plan.count:
            self._meter.spend(DEVICES, len(plan.devices))
            own = [taken.device for taken in self._taken[before:]]
            device = next(
                (
                    device
                    for device in plan.devices
                    if mask >> device & 1 and device not in own and self._state.fits(device, plan.use)
                ),
                None,
            )
            if device is None:
                while len(self._taken) > before:
                    self._state.undo(self._taken.pop())
                return False
            self._taken.append(self._state.take(device, plan.use))
        return True

    def _undo_all(self) -> list[Pick]:
        """Give back the chosen devices and return them in the order of the requests."""
        chosen: dict[int, list[Pick]] = {}
        while self._served:
            number, plan = self._served.pop()
            for _ in range(plan.count):
                taken = self._taken.pop()
                self._state.undo(taken)
                chosen.setdefault(number, []).append((plan, taken.device))
        return [pick for number in sorted(chosen) for pick in reversed(chosen[number])]

    def _serve_rest(self, remaining: tuple[int, ...]) -> Branches:
        """Yield the ways to serve these requests, the hardest first."""
        if not remaining:
            yield None
            return
        hardest = self._find_hardest(remaining)
        if hardest is None:
            return
        rest = tuple(number for number in remaining if number != hardest)
        kinds = tuple(sorted(self._kinds[number] for number in rest))
        for choice, plan in enumerate(self._requests[hardest].plans):
            self._served.append((hardest, plan))
            yield self._devices(plan, (kinds, self._kinds[hardest], choice), rest, 0, 0)
            self._served.pop()

    def _devices(
        self, plan: SubrequestPlan, where: Hashable, rest: tuple[int, ...], chosen: int, start: int
    ) -> Branches:
        """Yield the ways to choose the next device for a plan.

        `where` is a key: it is equal for two calls if their plans and remaining requests are equivalent.
        """
        if chosen >= plan.count:
            yield self._serve_rest(rest)
            return
        shares = [taken.device for taken in self._taken[len(self._taken) - chosen :] if taken.is_share]
        own = self._symmetry.set_class(shares) if shares else ()
        position = (where, chosen, self._symmetry.state_key(), own)
        if position in self._dead:
            return
        if chosen and self.lacks_room(plan, plan.count - chosen):
            self._dead.add(position)
            return
        indexes = range(start, len(plan.devices) - (plan.count - chosen) + 1)
        for index, device in iter_choices(plan, indexes, self._state, self._symmetry):
            self._meter.spend(CHOICES)
            self.choices += 1
            self._taken.append(self._state.take(device, plan.use))
            yield self._devices(plan, where, rest, chosen + 1, index + 1)
            self._state.undo(self._taken.pop())
        self._dead.add(position)

    @cached_property
    def _bin_fit(self) -> BinFit:
        return BinFit(self._requests, self._state, self._meter)

    @cached_property
    def _counter_bound(self) -> CounterBound:
        return CounterBound(self._requests, self._state, self._meter)

    def _find_hardest(self, remaining: Sequence[int]) -> int | None:
        """Return the request with the fewest spare devices; None if the requests can't all be served."""
        if self._bounds.exceeds_supply(remaining) or self._counter_bound.exceeds_supply(remaining):
            return None
        self._meter.spend(PROOFS, len(remaining))
        iter_choices = {self._kinds[number]: number for number in reversed(remaining)}
        spare = {number: self._bounds.count_spare(number) for number in iter_choices.values()}
        hardest = min(spare, key=lambda number: (spare[number], number))
        return hardest if spare[hardest] >= 0 else None
