"""Decides whether the remaining requests can be served at all, independent of their order.

The search serves requests in their given order, because that order determines the first allocation. If large
requests come last, the search may try very many ways to place the small ones before it finds that no device is
left for a large one. A proof may serve the hardest request first, the one with the fewest spare devices. It
usually needs few steps for either answer.

After many failures the search starts again and asks for a proof before it continues with the next request. It
then finds servable requests without backtracking and never enters unservable ones. The first allocation stays
the same.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Final

from dradriver.allocator.request.constraints import LIST
from dradriver.allocator.search.backtracking import Branches, Pick, different, walk
from dradriver.allocator.search.bounds import Bounds
from dradriver.allocator.search.counter_bound import CounterBound
from dradriver.allocator.search.plan import RequestPlan, SubrequestPlan, kinds_of
from dradriver.allocator.search.state import SearchState, UndoRecord
from dradriver.allocator.search.symmetry import Symmetry
from dradriver.model.resource.claim import MAX_RESULTS

__all__ = ["Prover"]

_GLANCES: Final = 8
"""Number of requests that can be counted in about the time of one device choice."""


class Prover:
    """Proofs for the states of one search."""

    def __init__(
        self,
        requests: Sequence[RequestPlan],
        state: SearchState,
        bounds: Bounds,
        symmetry: Symmetry,
        count_steps: Callable[[int], None],
    ) -> None:
        self._requests = requests
        self._state = state
        self._bounds = bounds
        self._symmetry = symmetry
        self._count_steps = count_steps
        self._kinds = kinds_of(requests)
        self._dead: set[Hashable] = set()
        self._taken: list[UndoRecord] = []
        self._served: list[tuple[int, SubrequestPlan]] = []
        self._example: list[Pick] = []
        most: dict[int, int] = {}
        for request in requests:
            largest = max((plan.count for plan in request.plans), default=0)
            most[request.claim] = most.get(request.claim, 0) + largest
        # The limit of devices per claim is not checked here, so no claim may come near it. While lists are
        # off, only the search's own order is exact: a device with a list may only be the first of its
        # constraint.
        self._usable = max(most.values(), default=0) <= MAX_RESULTS and not any(
            LIST in values for _, values in state.rows
        )

    def servable(self, number: int, picks: Sequence[Pick]) -> bool:
        """Return whether the requests from `number` on can all be served now; True also if this is unknown.

        Args:
            number: the first of the requests in question.
            picks: the devices that serve the requests before it.
        """
        if not self._usable or (self._example and self._example[: len(picks)] == picks):
            return True  # the last example confirms all choices so far
        example = self._serve(tuple(range(number, len(self._requests))))
        if example is not None:
            self._example = [*picks, *example]
        return example is not None

    def hopeless(self) -> int | None:
        """Return the first request of a claim that can't be served even if no other claim gets a device.

        Call this only while nothing is chosen. A claim that can't be served alone can't be served beside
        others. This check avoids trying all ways to serve the others.
        """
        claims: dict[int, list[int]] = {}
        for number, request in enumerate(self._requests):
            claims.setdefault(request.claim, []).append(number)
        if self._usable and len(claims) > 1:
            for numbers in claims.values():
                if self._serve(tuple(numbers)) is None:
                    return numbers[0]
        return None

    def _serve(self, numbers: tuple[int, ...]) -> list[Pick] | None:
        """Return a way to serve these requests, in their order; None if there is none."""
        return self._end() if walk(self._next(numbers)) else None

    def _end(self) -> list[Pick]:
        """Give back the chosen devices and return them in the order of the requests."""
        chosen: dict[int, list[Pick]] = {}
        while self._served:
            number, plan = self._served.pop()
            for _ in range(plan.count):
                taken = self._taken.pop()
                self._state.undo(taken)
                chosen.setdefault(number, []).append((plan, taken.device))
        return [pick for number in sorted(chosen) for pick in reversed(chosen[number])]

    def _next(self, remaining: tuple[int, ...]) -> Branches:
        """Yield the ways to serve these requests, the hardest first."""
        if not remaining:
            yield None
            return
        hardest = self._hardest(remaining)
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

        `where` is equal for equal plans with equal rests.
        """
        if chosen >= plan.count:
            yield self._next(rest)
            return
        shares = [taken.device for taken in self._taken[len(self._taken) - chosen :] if taken.is_share]
        own = self._symmetry.together(shares) if shares else ()
        position = (where, chosen, self._symmetry.position(), own)
        if position in self._dead:
            return
        places = range(start, len(plan.devices) - (plan.count - chosen) + 1)
        for index, device in different(plan, places, self._state, self._symmetry):
            self._count_steps(1)
            self._taken.append(self._state.take(device, plan.use))
            yield self._devices(plan, where, rest, chosen + 1, index + 1)
            self._state.undo(self._taken.pop())
        self._dead.add(position)

    @cached_property
    def _crowds(self) -> CounterBound:
        return CounterBound(self._requests, self._state)

    def _hardest(self, remaining: Sequence[int]) -> int | None:
        """Return the request with the fewest spare devices; None if one can't be served."""
        if self._bounds.overdrawn_by(remaining) or self._crowds.too_many(remaining):
            return None
        different = {self._kinds[number]: number for number in reversed(remaining)}
        self._count_steps(len(different) // _GLANCES)
        spare = {number: self._bounds.spare(number) for number in different.values()}
        hardest = min(spare, key=lambda number: (spare[number], number))
        return hardest if spare[hardest] >= 0 else None
