"""Searches depth first over requests and devices, in order of preference. The first allocation wins.

A partial choice that can't be completed is a dead end, however the search reached it. Before each deeper level
the search makes these checks:

- The bounds still hold (`bounds`).
- An equivalent state was not a dead end before (`symmetry`).
- An equivalent device was not tried just before (`symmetry`).
- After many failures: the remaining requests can be served at all (`prover`).

No check changes which allocation is found first.

A selector that fails on a device is an error of the claim, but only if the search reaches that device. While
such devices exist, no bound shortens the search, so it reaches the same devices as the search of Kubernetes.

The general problem is NP-hard. So the answer after `max_steps` steps is "undecided", which is not "no".
"""

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Final

from dradriver.allocator.explain.refusal import Reason, Refusal, Reporter
from dradriver.allocator.search.backtracking import Branches, Pick, different, walk
from dradriver.allocator.search.bounds import Bounds
from dradriver.allocator.search.conflicting_devices import conflicting_devices
from dradriver.allocator.search.plan import Planner, RequestPlan, SubrequestPlan, pool_reason
from dradriver.allocator.search.prover import Prover
from dradriver.allocator.search.state import Obstacle, UndoRecord
from dradriver.allocator.search.symmetry import Symmetry
from dradriver.model.resource.claim import MAX_RESULTS

__all__ = ["Pick", "Search"]

_PATIENCE: Final = 100
"""Number of devices given back after which the search asks for proofs."""


class Search:
    """A search for one node."""

    def __init__(
        self, planner: Planner, requests: Sequence[RequestPlan], reporter: Reporter, max_steps: int
    ) -> None:
        self._planner = planner
        self._requests = requests
        self._reporter = reporter
        self._max_steps = max_steps
        self._every_step = any(
            plan.candidates.errors or plan.late_errors for request in requests for plan in request.alternatives
        )
        self._state = planner.state
        self._bounds = Bounds(requests, planner.state)
        self._symmetry = Symmetry(requests, planner.state)
        self._prover = Prover(requests, self._state, self._bounds, self._symmetry, self._count_steps)
        self._in_claim = [0] * len(planner.claims)
        self._still_least = _least_after(requests)
        self._dead: set[Hashable] = set()
        self._steps = self._failures = 0
        self._proves = False
        self._picks: list[Pick] = []
        self._taken: list[UndoRecord] = []
        self._furthest = (-1, -1)
        self._blamed = 0
        self._obstacles: tuple[Reason, ...] = ()

    def run(self) -> list[Pick]:
        """Return the first allocation.

        Raises:
            Refusal: no allocation exists, or the search gave up.
        """
        for number, request in enumerate(self._requests):
            if not request.plans:
                self._note((0, -1), number, [p.impossible for p in request.impossible if p.impossible])
        found = bool(self._every_step or not self._obstacles) and self._find()
        self._reporter.finished(self._steps, found=found)
        if not found:
            raise self._refusal()
        return self._picks

    def _find(self) -> bool:
        found = walk(self._request(0), self._is_impatient)
        if found is not None:
            return found
        while self._picks:
            self._give_back()
        self._proves = True
        hopeless = self._prover.hopeless()
        if hopeless is None:
            return bool(walk(self._request(0)))
        self._furthest = (-1, -1)
        self._note(
            (0, -1), hopeless, [Reason("too-few", "the requests of this claim can't be served together")]
        )
        return False

    def _is_impatient(self) -> bool:
        return self._failures > _PATIENCE and not self._every_step

    def _request(self, number: int) -> Branches:
        """Yield the ways to serve a request: its alternatives in order."""
        if number == len(self._requests):
            yield None
            return
        request = self._requests[number]
        if not self._every_step and (broken := self._bounds.broken(number)):
            self._note_broken(number, *broken)
            return
        if self._proves and not self._prover.servable(number, self._picks):
            together = Reason("too-few", "this request and those after it can't be served together")
            self._note((number, -1), number, [together])
            return
        for choice, plan in enumerate(request.alternatives):
            if plan.impossible is not None:
                for device in plan.devices if self._every_step else ():
                    self._check_selectors(plan, device)
                continue
            if self._in_claim[request.claim] + plan.count + self._still_least[number] > MAX_RESULTS:
                self._note((number, -1), number, [Reason("too-many", f"a claim holds {MAX_RESULTS} devices")])
                continue
            yield self._devices(number, choice, plan, 0, 0)

    def _devices(self, number: int, choice: int, plan: SubrequestPlan, chosen: int, start: int) -> Branches:
        """Yield the ways to choose the next device for a plan, from position `start` of its candidates on."""
        if chosen >= plan.count:
            yield self._request(number + 1)
            return
        # The alternatives chosen earlier matter only through what is left and through the claim's limit.
        # A request takes at most one share of a device, so the shares that it already took matter too.
        shares = [device for _, device in self._picks[len(self._picks) - chosen :] if device in plan.use.draws]
        own = self._symmetry.together(shares) if shares else ()
        position = (number, choice, chosen, self._in_claim[plan.ask.claim], self._symmetry.position(), own)
        if position in self._dead:
            return
        stuck = True
        end = len(plan.devices) if self._every_step else len(plan.devices) - (plan.count - chosen) + 1
        look = partial(self._check_selectors, plan) if self._every_step else None
        for index, device in different(plan, range(start, end), self._state, self._symmetry, look):
            stuck = False
            yield from self._with(device, number, choice, plan, chosen, index)
        if stuck:
            self._note_devices(number, chosen, plan)
        self._dead.add(position)

    def _with(
        self, device: int, number: int, choice: int, plan: SubrequestPlan, chosen: int, index: int
    ) -> Branches:
        self._count_steps(1)
        self._reporter.chosen(self._name(plan), self._state.supply.devices[device].id)
        self._taken.append(self._state.take(device, plan.use))
        self._picks.append((plan, device))
        self._in_claim[plan.ask.claim] += 1
        yield self._devices(number, choice, plan, chosen + 1, index + 1)
        self._give_back()
        self._failures += 1

    def _give_back(self) -> None:
        """Give back the device that was chosen last."""
        plan, device = self._picks.pop()
        self._in_claim[plan.ask.claim] -= 1
        self._state.undo(self._taken.pop())
        self._reporter.backtracked(self._name(plan), self._state.supply.devices[device].id)

    def _name(self, plan: SubrequestPlan) -> str:
        return f"{self._planner.claims[plan.ask.claim].ref}:{plan.ask.name}"

    def _count_steps(self, steps: int) -> None:
        if self._steps >= self._max_steps:
            self._reporter.finished(self._steps, found=False)
            for plan in (plan for request in self._requests for plan in request.alternatives):
                for message in (*plan.candidates.errors.values(), *plan.late_errors.values()):
                    raise self._planner.selector_error(plan.ask, message)
            raise Refusal(
                "undecided",
                f"cannot decide within {self._max_steps} steps whether all claims can be allocated",
                node=self._planner.node,
                reasons=[Reason("steps", f"the search gave up after {self._max_steps} steps")],
            )
        self._steps += steps

    def _check_selectors(self, plan: SubrequestPlan, device: int) -> None:
        if device in plan.candidates.errors and not self._state.marks[device] & plan.use.excludes:
            raise self._planner.selector_error(plan.ask, plan.candidates.errors[device])
        if device in plan.late_errors and self._state.available(device, plan.use):
            raise self._planner.selector_error(plan.ask, plan.late_errors[device])

    # --- why not -------------------------------------------------------------------------------

    def _note(self, place: tuple[int, int], blamed: int, reasons: Sequence[Reason]) -> None:
        """Keep the obstacles if `place` is the furthest place that the search reached."""
        if place > self._furthest:
            self._furthest, self._blamed, self._obstacles = place, blamed, tuple(reasons)

    def _note_broken(self, number: int, blamed: int, reason: Reason) -> None:
        if (number, -1) > self._furthest:
            plans = self._requests[blamed].plans
            self._note((number, -1), blamed, [reason, *(r for plan in plans for r in self._in_the_way(plan))])

    def _note_devices(self, number: int, chosen: int, plan: SubrequestPlan) -> None:
        if (number, chosen) > self._furthest:
            self._note((number, chosen), number, self._in_the_way(plan))

    def _in_the_way(self, plan: SubrequestPlan) -> list[Reason]:
        """Return the obstacles that keep the plan's candidates away now."""
        found: dict[tuple[Obstacle, tuple[int, ...]], list[int]] = {}
        for device in plan.devices:
            if obstacle := self._state.obstacle(device, plan.use):
                chosen = (
                    conflicting_devices(self._state, self._picks, device, plan.use)
                    if obstacle[0] == "constraint"
                    else ()
                )
                found.setdefault((obstacle, chosen), []).append(device)
        names = self._state.supply.devices
        return [
            Reason(code, text, *(tuple(names[device].id for device in each) for each in (devices, chosen)))
            for ((code, text), chosen), devices in found.items()
        ]

    def _refusal(self) -> Refusal:
        request = self._requests[self._blamed]
        supply = self._planner.supply
        static = (
            r
            for p in (*request.plans, *request.impossible)
            for r in (*p.candidates.missing, *p.candidates.rejections)
        )
        pools = [pool_reason(pool, problem) for pool, problem in (*supply.unusable, *supply.remarks)]
        invalid = [reason.text for reason in pools if reason.code == "pool-invalid"]
        return Refusal(
            "node",
            "; ".join(["cannot allocate all claims", *invalid]),
            claim=self._planner.claims[request.claim].ref,
            request=request.name,
            node=self._planner.node,
            reasons=dict.fromkeys([*self._obstacles, *static, *pools]),
        )


def _least_after(requests: Sequence[RequestPlan]) -> list[int]:
    """Return, for each request, how many devices the later requests of its claim need at least."""
    after, least = [0] * len(requests), 0
    for number in reversed(range(len(requests))):
        if number + 1 < len(requests) and requests[number + 1].claim != requests[number].claim:
            least = 0
        after[number] = least
        least += requests[number].least
    return after
