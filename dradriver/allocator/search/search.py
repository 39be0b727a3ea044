"""Searches depth first over requests and devices, in order of preference. The first allocation wins.

If a partial choice can't be completed, its state is a dead end, regardless of how the search reached the state.
Before each deeper level the search checks these conditions:

- The bounds hold (`bounds`).
- No equivalent state is a known dead end (`symmetry`).
- No equivalent device was tried in the same state (`symmetry`).
- After many failures: the remaining requests can be served at all (`prover`).

No check changes which allocation is found first.

If a selector fails on a device and the search reaches this device, the claim has an error. If there are
candidates on which a selector fails, the search does not use the bounds, so it reaches the same devices as the
search of Kubernetes.

The general problem is NP-hard, so the search gives up when the budget is spent (`meter`). Its answer is then
"undecided", which does not mean that no allocation exists.
"""

from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import Final

from dradriver.allocator.explain.refusal import Reason, Refusal, Reporter
from dradriver.allocator.meter import CHOICES, DEVICES, BudgetSpentError, Meter
from dradriver.allocator.search.backtracking import Branches, Pick, backtrack, iter_choices
from dradriver.allocator.search.bounds import Bounds
from dradriver.allocator.search.plan import Planner, RequestPlan, SubrequestPlan, pool_reason
from dradriver.allocator.search.proofs.prover import Prover
from dradriver.allocator.search.state import Obstacle, SearchState, SubrequestUse, UndoRecord
from dradriver.allocator.search.symmetry import Symmetry
from dradriver.model.resource.claim import MAX_RESULTS

__all__ = ["Pick", "Search"]

_MAX_FAILURES: Final = 100
"""Maximum number of devices that the search gives back before it uses proofs."""


_PAIRS: Final = 8
"""Number of chosen devices that can be compared under a constraint in about the time of `DEVICES`."""


class Search:
    """A search for one node."""

    def __init__(
        self, planner: Planner, requests: Sequence[RequestPlan], reporter: Reporter, meter: Meter
    ) -> None:
        self._planner = planner
        self._requests = requests
        self._reporter = reporter
        self._meter = meter
        self._is_exhaustive = any(
            plan.candidates.errors or plan.derivation_errors
            for request in requests
            for plan in request.alternatives
        )
        self._state = planner.state
        self._bounds = Bounds(requests, planner.state, meter)
        self._symmetry = Symmetry(requests, planner.state, meter)
        self._prover = Prover(requests, self._state, self._bounds, self._symmetry, meter)
        self._chosen_in_claim = [0] * len(planner.claims)
        self._needed_later = _count_needed_later(requests)
        self._dead: set[Hashable] = set()
        self._choices = self._failures = 0
        self._uses_prover = False
        self._picks: list[Pick] = []
        self._taken: list[UndoRecord] = []
        self._furthest_point = (-1, -1)
        self._blamed = 0
        self._obstacles: tuple[Reason, ...] = ()

    def run(self) -> list[Pick]:
        """Return the first allocation.

        Raises:
            Refusal: no allocation exists, or a selector failed.
            BudgetSpentError: the budget is spent, and no selector failed.
        """
        for number, request in enumerate(self._requests):
            if not request.plans:
                self._keep((0, -1), number, *(p.impossible for p in request.impossible if p.impossible))
        try:
            succeeded = bool(self._is_exhaustive or not self._obstacles) and self._find()
        except BudgetSpentError:
            self._reporter.finished(self._count_choices(), found=False)
            self._raise_selector_errors()
            raise
        self._reporter.finished(self._count_choices(), found=succeeded)
        if not succeeded:
            raise self._refusal()
        return self._picks

    def _find(self) -> bool:
        succeeded = backtrack(self._request(0), self._needs_proofs)
        if succeeded is not None:
            return succeeded
        while self._picks:
            self._undo_last()
        self._uses_prover = True
        unservable = self._prover.find_unservable()
        if unservable is None:
            return bool(backtrack(self._request(0)))
        self._furthest_point = (-1, -1)
        self._keep(
            (0, -1), unservable, Reason("too-few", "the requests of this claim can't be served together")
        )
        return False

    def _needs_proofs(self) -> bool:
        return self._failures > _MAX_FAILURES and not self._is_exhaustive

    def _request(self, number: int) -> Branches:
        """Yield the ways to serve a request. The alternatives are tried in their order."""
        if number == len(self._requests):
            yield None
            return
        request = self._requests[number]
        if not self._is_exhaustive and (violation := self._bounds.find_violation(number)):
            self._keep_violation(number, *violation)
            return
        if self._uses_prover and not self._prover.is_servable(number, self._picks):
            together = Reason("too-few", "this request and those after it can't be served together")
            self._keep((number, -1), number, together)
            return
        for choice, plan in enumerate(request.alternatives):
            if plan.impossible is not None:
                for device in plan.devices if self._is_exhaustive else ():
                    self._check_selectors(plan, device)
                continue
            if self._chosen_in_claim[request.claim] + plan.count + self._needed_later[number] > MAX_RESULTS:
                limit = Reason("too-many", f"a claim can hold at most {MAX_RESULTS} devices")
                self._keep((number, -1), number, limit)
                continue
            yield self._devices(number, choice, plan, 0, 0)

    def _devices(self, number: int, choice: int, plan: SubrequestPlan, chosen: int, start: int) -> Branches:
        """Yield the ways to choose the next device for a plan, from its candidate number `start` on."""
        if chosen >= plan.count:
            yield self._request(number + 1)
            return
        # Earlier alternatives matter only for the resources that are left and for the claim's limit of devices.
        # A request takes at most one share of a device, so the shares that this request already took matter
        # too.
        picks = self._picks[len(self._picks) - chosen :]
        shares = [device for _, device in picks if device in plan.use.share_use]
        own = self._symmetry.set_class(shares) if shares else ()
        in_claim = self._chosen_in_claim[plan.subrequest.claim]
        position = (number, choice, chosen, in_claim, self._symmetry.state_key(), own)
        if position in self._dead:
            return
        if chosen and self._uses_prover and self._prover.lacks_room(plan, plan.count - chosen):
            self._dead.add(position)
            return
        is_stuck = True
        end = len(plan.devices) if self._is_exhaustive else len(plan.devices) - (plan.count - chosen) + 1
        on_reached = partial(self._check_selectors, plan) if self._is_exhaustive else None
        for index, device in iter_choices(plan, range(start, end), self._state, self._symmetry, on_reached):
            is_stuck = False
            yield from self._choose(device, number, choice, plan, chosen, index)
        if is_stuck:
            self._keep_obstacles(number, chosen, plan)
        self._dead.add(position)

    def _choose(
        self, device: int, number: int, choice: int, plan: SubrequestPlan, chosen: int, index: int
    ) -> Branches:
        self._meter.spend(CHOICES)
        self._choices += 1
        self._reporter.chosen(self._request_name(plan), self._state.supply.devices[device].id)
        self._taken.append(self._state.take(device, plan.use))
        self._picks.append((plan, device))
        self._chosen_in_claim[plan.subrequest.claim] += 1
        yield self._devices(number, choice, plan, chosen + 1, index + 1)
        self._undo_last()
        self._failures += 1

    def _undo_last(self) -> None:
        """Give back the device that was chosen last."""
        plan, device = self._picks.pop()
        self._chosen_in_claim[plan.subrequest.claim] -= 1
        self._state.undo(self._taken.pop())
        self._reporter.backtracked(self._request_name(plan), self._state.supply.devices[device].id)

    def _request_name(self, plan: SubrequestPlan) -> str:
        return f"{self._planner.claims[plan.subrequest.claim].ref}:{plan.subrequest.name}"

    def _count_choices(self) -> int:
        return self._choices + self._prover.choices

    def _raise_selector_errors(self) -> None:
        """Raise the refusal for the first candidate on which a selector fails, if there is one."""
        for plan in (plan for request in self._requests for plan in request.alternatives):
            derivation_errors = [error.message for error in plan.derivation_errors.values()]
            for message in (*plan.candidates.errors.values(), *derivation_errors):
                raise self._planner.selector_refusal(plan.subrequest, message)

    def _check_selectors(self, plan: SubrequestPlan, device: int) -> None:
        if device in plan.candidates.errors and not self._state.marks[device] & plan.use.excludes:
            raise self._planner.selector_refusal(plan.subrequest, plan.candidates.errors[device])
        error = plan.derivation_errors.get(device)
        if error is None or not self._state.available(device, plan.use):
            return
        # As in Kubernetes, an attribute is derived when its constraint is checked, and the constraints are
        # checked in their order until one is not satisfied.
        if self._state.satisfies_before(error.constraint, device, plan.use):
            raise self._planner.selector_refusal(plan.subrequest, error.message)

    # --- reasons -------------------------------------------------------------------------------

    def _keep(self, point: tuple[int, int], blamed: int, *reasons: Reason) -> None:
        """Keep the obstacles if `point` is further than all earlier points of the search."""
        if point > self._furthest_point:
            self._furthest_point, self._blamed, self._obstacles = point, blamed, reasons

    def _keep_violation(self, number: int, blamed: int, reason: Reason) -> None:
        if (number, -1) > self._furthest_point:
            plans = self._requests[blamed].plans
            self._keep((number, -1), blamed, reason, *(r for plan in plans for r in self._list_obstacles(plan)))

    def _keep_obstacles(self, number: int, chosen: int, plan: SubrequestPlan) -> None:
        if (number, chosen) > self._furthest_point:
            self._keep((number, chosen), number, *self._list_obstacles(plan))

    def _list_obstacles(self, plan: SubrequestPlan) -> list[Reason]:
        """Return the obstacles that exclude the plan's candidates now."""
        pairs = len(self._picks) * len(plan.use.constraints)
        self._meter.spend(DEVICES, len(plan.devices) * (1 + pairs // _PAIRS))
        obstacles: dict[tuple[Obstacle, tuple[int, ...]], list[int]] = {}
        for device in plan.devices:
            if obstacle := self._state.find_obstacle(device, plan.use):
                chosen = (
                    _find_conflicting_devices(self._state, self._picks, device, plan.use)
                    if obstacle[0] == "constraint"
                    else ()
                )
                obstacles.setdefault((obstacle, chosen), []).append(device)
        names = self._state.supply.devices
        return [
            Reason(code, text, *(tuple(names[device].id for device in each) for each in (devices, chosen)))
            for ((code, text), chosen), devices in obstacles.items()
        ]

    def _refusal(self) -> Refusal:
        request = self._requests[self._blamed]
        supply = self._planner.supply
        of_candidates = (
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
            reasons=dict.fromkeys([*self._obstacles, *of_candidates, *pools]),
        )


def _count_needed_later(requests: Sequence[RequestPlan]) -> list[int]:
    """Return, for each request, the least number of devices that the later requests of its claim need."""
    later, least = [0] * len(requests), 0
    for number in reversed(range(len(requests))):
        if number + 1 < len(requests) and requests[number + 1].claim != requests[number].claim:
            least = 0
        later[number] = least
        least += requests[number].least
    return later


def _find_conflicting_devices(
    state: SearchState, picks: Sequence[tuple[SubrequestPlan, int]], device: int, use: SubrequestUse
) -> tuple[int, ...]:
    """Return the chosen devices that conflict with a device, by the first constraint that the device breaks.

    If some chosen devices exclude the device by themselves, only those devices are returned. If the chosen
    devices exclude the device only in combination, all of them are returned. This happens for list-typed
    attributes without a common value. If the device lacks the attribute, the result is empty, because no other
    device causes the conflict.

    Args:
        state: the state in which the device does not fit.
        picks: the chosen devices in that state.
        device: the device that does not fit.
        use: how the subrequest would use the device.
    """
    for number, values in zip(use.constraints, use.values, strict=True):
        constraint, value = state.constraints[number], values[device]
        if constraint.join(state.constraint_states[number], value) is None:
            if not value:
                return ()
            covered = list(_list_covered(picks, number))
            clashing = tuple(other for other, theirs in covered if constraint.clashes(value, theirs))
            return clashing or tuple(other for other, _ in covered)
    return ()


def _list_covered(picks: Sequence[tuple[SubrequestPlan, int]], number: int) -> Iterator[tuple[int, int]]:
    """Yield the chosen devices that a constraint covers, with their values."""
    for plan, device in picks:
        for covering, values in zip(plan.use.constraints, plan.use.values, strict=True):
            if covering == number:
                yield device, values[device]
