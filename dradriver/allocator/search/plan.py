"""Plans the requests for one node: their candidates, the number of devices and the constraints."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from dradriver.allocator.explain.refusal import Reason, ReasonCode, Refusal, Reporter
from dradriver.allocator.request.subrequests import ParsedRequest, Subrequest, too_many
from dradriver.allocator.search.candidates import CandidateFilter, Candidates
from dradriver.allocator.search.exclusion_masks import Marks, marks_of
from dradriver.allocator.search.state import SearchState, SubrequestUse
from dradriver.allocator.supply.node_supply import Supply
from dradriver.allocator.supply.pools import PoolView
from dradriver.cel.evaluate.errors import EvaluationError
from dradriver.model.resource.claim import MAX_RESULTS, ResourceClaim

__all__ = ["Planner", "RequestPlan", "SubrequestPlan", "kinds_of", "pool_reason", "too_few"]


@dataclass(frozen=True, slots=True, eq=False)
class SubrequestPlan:
    """A subrequest with its candidates.

    Attributes:
        ask: the subrequest.
        devices: its candidates by position, in order of preference.
        mask: the candidates as bits.
        count: number of devices that it needs.
        use: how it uses the devices.
        candidates: the candidates with the rejections, for the explanation.
        late_errors: devices on which a derived attribute fails, with the message.
        impossible: the reason why the candidates can't serve it under any choice; None if they may.
    """

    ask: Subrequest
    devices: tuple[int, ...]
    mask: int
    count: int
    use: SubrequestUse
    candidates: Candidates
    late_errors: Mapping[int, str]
    impossible: Reason | None


@dataclass(frozen=True, slots=True, eq=False)
class RequestPlan:
    """A request. The search uses the first of its plans that works.

    Attributes:
        claim: index of the claim among the claims to allocate.
        name: the request's name.
        plans: the possible plans, in order of preference.
        impossible: the other plans.
        alternatives: all plans, in order of preference.
    """

    claim: int
    name: str
    plans: tuple[SubrequestPlan, ...]
    impossible: tuple[SubrequestPlan, ...]
    alternatives: tuple[SubrequestPlan, ...]

    @property
    def least(self) -> int:
        """Return the smallest number of devices that the request needs."""
        return min((plan.count for plan in self.plans), default=0)


@dataclass(frozen=True, slots=True)
class Planner:
    """Makes the plans for one node."""

    claims: Sequence[ResourceClaim]
    supply: Supply
    state: SearchState
    filter: CandidateFilter
    reporter: Reporter
    node: str

    def plans(self, requests: Sequence[ParsedRequest]) -> list[RequestPlan]:
        """Return the plans in the order of the requests.

        Raises:
            Refusal: an `All` request sees a pool that can't be used, or a claim needs too many devices on this
                node.
        """
        marks = marks_of(requests)
        found = [self._request(request, mine) for request, mine in zip(requests, marks, strict=True)]
        for number, claim in enumerate(self.claims):
            least = sum(request.least for request in found if request.claim == number)
            if least > MAX_RESULTS:
                raise too_many("node", claim, least, self.node)
        return found

    def _request(self, request: ParsedRequest, marks: Marks) -> RequestPlan:
        plans = [self._plan(ask, marks) for ask in request.alternatives]
        return RequestPlan(
            request.claim,
            request.name,
            tuple(plan for plan in plans if plan.impossible is None),
            tuple(plan for plan in plans if plan.impossible is not None),
            tuple(plans),
        )

    def _plan(self, ask: Subrequest, marks: Marks) -> SubrequestPlan:
        claim = self.claims[ask.claim]
        candidates = self.filter.candidates(ask)
        if ask.count is None:
            self._see_all_pools(ask, claim, candidates)
        devices = candidates.devices
        name = f"{claim.ref}:{ask.name}"
        self.reporter.considered(name, [self.supply.devices[device].id for device in devices])
        for reason in (*candidates.rejections, *candidates.missing):
            self.reporter.rejected(name, reason)
        if ask.count is None and candidates.errors:
            raise self.selector_error(ask, next(iter(candidates.errors.values())))
        derived, late_errors = self._derived(ask, candidates)
        mask = sum(1 << device for device in devices)
        count = len(devices) if ask.count is None else ask.count
        return SubrequestPlan(
            ask,
            devices,
            mask,
            count,
            self.state.use(ask, derived, candidates.draws, marks),
            candidates,
            late_errors,
            _impossible(ask, candidates),
        )

    def _derived(self, ask: Subrequest, candidates: Candidates) -> tuple[dict[int, list[int]], dict[int, str]]:
        """Return the candidates' values that the subrequest computes itself, and the errors by device.

        The values are grouped by constraint.
        """
        values: dict[int, list[int]] = {}
        errors: dict[int, str] = {}
        for number, constraint in enumerate(self.state.constraints):
            derive = ask.derived.get(constraint.attribute) if constraint.covers(ask) else None
            if derive is None:
                continue
            row = values[number] = [0] * len(self.supply.devices)
            for device in candidates.devices:
                pooled = self.supply.devices[device]
                try:
                    row[device] = constraint.bits(derive(pooled))
                except EvaluationError as error:
                    errors[device] = f"derived attribute {constraint.attribute} on device {pooled.id}: {error}"
        return values, errors

    def selector_error(self, ask: Subrequest, message: str) -> Refusal:
        """Return the refusal for a selector that fails on a device. As in Kubernetes, the claim is at fault."""
        claim = self.claims[ask.claim].ref
        return Refusal(
            "claim",
            f"claim {claim}, request {ask.name}: {message}",
            claim=claim,
            request=ask.name,
            node=self.node,
            reasons=[Reason("selector-error", message)],
        )

    def _see_all_pools(self, ask: Subrequest, claim: ResourceClaim, candidates: Candidates) -> None:
        for pool, problem in sorted(self.supply.unusable, key=lambda each: each[0].key):
            for device, message in candidates.errors.items():
                # Pools are read in their order, and the first problem is reported.
                if self.supply.place_of(device) < (False, pool.key):
                    raise self.selector_error(ask, message)
            raise Refusal(
                "node",
                f"claim {claim.ref}, request {ask.name}: asks for all devices, "
                f"but resource pool {pool.driver}/{pool.name} is {problem}",
                claim=claim.ref,
                request=ask.name,
                node=self.node,
                reasons=[pool_reason(pool, problem) for pool, problem in self.supply.unusable],
            )


def _impossible(ask: Subrequest, candidates: Candidates) -> Reason | None:
    usable = len(candidates.devices)
    if ask.count is None:
        if candidates.missing:
            return Reason("too-few", "all devices that match are needed and not all can be had")
        return None if usable else Reason("too-few", "all devices that match are needed and none matches")
    if ask.count > usable:
        return too_few(ask.count, usable)
    return None


def too_few(wanted: int, usable: int) -> Reason:
    """Return the reason for fewer devices than requested."""
    return Reason("too-few", f"{wanted} device{'s are' if wanted != 1 else ' is'} needed, {usable} can be used")


def pool_reason(pool: PoolView, problem: str) -> Reason:
    """Return the reason for a pool that serves no request."""
    code: ReasonCode = "pool-invalid" if problem.startswith("invalid") else "pool-incomplete"
    return Reason(code, f"resource pool {pool.driver}/{pool.name} is {problem}")


def kinds_of(requests: Sequence[RequestPlan]) -> list[int]:
    """Return a number for each request; requests that the same choices serve have equal numbers."""
    numbers: dict[Hashable, int] = {}
    found = []
    for request in requests:
        key = tuple(
            (
                plan.mask,
                plan.count,
                plan.use.mark,
                plan.use.excludes,
                plan.use.constraints,
                tuple(map(id, plan.use.values)),
                id(plan.candidates),
            )
            for plan in request.plans
        )
        found.append(numbers.setdefault(key, len(numbers)))
    return found
