"""Plans the requests for one node: finds their candidates, numbers of devices and constraints."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from dradriver.allocator.explain.refusal import Reason, ReasonCode, Refusal, Reporter
from dradriver.allocator.meter import DEVICES, Meter
from dradriver.allocator.request.subrequests import ParsedRequest, Subrequest, too_many_refusal
from dradriver.allocator.search.candidates import CandidateFilter, Candidates
from dradriver.allocator.search.state import Marks, SearchState, SubrequestUse, assign_marks
from dradriver.allocator.supply.node_supply import Supply
from dradriver.allocator.supply.pools import PoolView
from dradriver.cel.evaluate.errors import EvaluationError
from dradriver.model.resource.claim import MAX_RESULTS, ResourceClaim

__all__ = [
    "DerivationError",
    "Planner",
    "RequestPlan",
    "SubrequestPlan",
    "number_kinds",
    "pool_reason",
    "too_few_reason",
]


@dataclass(frozen=True, slots=True)
class DerivationError:
    """The first derived attribute that fails on a device.

    Attributes:
        constraint: the number of the constraint that compares the attribute.
        message: the error.
    """

    constraint: int
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class SubrequestPlan:
    """A subrequest with its candidates.

    Attributes:
        subrequest: the subrequest.
        devices: the positions of its candidates, in order of preference.
        mask: the candidates as bits.
        count: number of devices that it needs.
        use: how it uses the devices.
        candidates: the candidates together with the rejections, for explanations.
        derivation_errors: devices on which a derived attribute fails, with the error.
        impossible: the reason why no choice of the candidates can serve the subrequest; None if one may exist.
    """

    subrequest: Subrequest
    devices: tuple[int, ...]
    mask: int
    count: int
    use: SubrequestUse
    candidates: Candidates
    derivation_errors: Mapping[int, DerivationError]
    impossible: Reason | None


@dataclass(frozen=True, slots=True, eq=False)
class RequestPlan:
    """A request. The search uses the first of its plans that works.

    Attributes:
        claim: index of the claim among the claims to allocate.
        name: the request's name.
        plans: the possible plans, in order of preference.
        impossible: the plans that no choice of candidates can serve.
        alternatives: all plans, possible or not, in order of preference.
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
    meter: Meter

    def plans(self, requests: Sequence[ParsedRequest]) -> list[RequestPlan]:
        """Return the plans in the order of the requests.

        Raises:
            Refusal: a request asks for all devices while a pool can't be used, or a claim needs too many
                devices on this node.
        """
        marks = assign_marks(requests)
        plans = [
            self._plan_request(request, own_marks) for request, own_marks in zip(requests, marks, strict=True)
        ]
        for number, claim in enumerate(self.claims):
            least = sum(request.least for request in plans if request.claim == number)
            if least > MAX_RESULTS:
                raise too_many_refusal("node", claim, least, self.node)
        return plans

    def _plan_request(self, request: ParsedRequest, marks: Marks) -> RequestPlan:
        plans = [self._plan_subrequest(subrequest, marks) for subrequest in request.alternatives]
        return RequestPlan(
            request.claim,
            request.name,
            tuple(plan for plan in plans if plan.impossible is None),
            tuple(plan for plan in plans if plan.impossible is not None),
            tuple(plans),
        )

    def _plan_subrequest(self, subrequest: Subrequest, marks: Marks) -> SubrequestPlan:
        claim = self.claims[subrequest.claim]
        candidates = self.filter.candidates(subrequest)
        self.meter.spend(DEVICES, len(candidates.devices) // 4)
        if subrequest.count is None:
            self._require_usable_pools(subrequest, claim, candidates)
        devices = candidates.devices
        name = f"{claim.ref}:{subrequest.name}"
        self.reporter.considered(name, [self.supply.devices[device].id for device in devices])
        for reason in (*candidates.rejections, *candidates.missing):
            self.reporter.rejected(name, reason)
        if subrequest.count is None and candidates.errors:
            raise self.selector_refusal(subrequest, next(iter(candidates.errors.values())))
        derived, derivation_errors = self._derive_values(subrequest, candidates)
        mask = sum(1 << device for device in devices)
        count = len(devices) if subrequest.count is None else subrequest.count
        return SubrequestPlan(
            subrequest,
            devices,
            mask,
            count,
            self.state.make_use(subrequest, derived, candidates.share_use, marks),
            candidates,
            derivation_errors,
            _find_impossibility(subrequest, candidates),
        )

    def _derive_values(
        self, subrequest: Subrequest, candidates: Candidates
    ) -> tuple[dict[int, list[int]], dict[int, DerivationError]]:
        """Return the values that the subrequest derives for its candidates, and the errors by device.

        The result has one row of values for each constraint.
        """
        values: dict[int, list[int]] = {}
        errors: dict[int, DerivationError] = {}
        for number, constraint in enumerate(self.state.constraints):
            derive = subrequest.derived.get(constraint.attribute) if constraint.covers(subrequest) else None
            if derive is None:
                continue
            row = values[number] = [0] * len(self.supply.devices)
            for device in candidates.devices:
                pooled = self.supply.devices[device]
                try:
                    row[device] = constraint.value_bits(derive(pooled, self.meter))
                except EvaluationError as error:
                    message = f"derived attribute {constraint.attribute} on device {pooled.id}: {error}"
                    errors.setdefault(device, DerivationError(number, message))
        return values, errors

    def selector_refusal(self, subrequest: Subrequest, message: str) -> Refusal:
        """Return the refusal for a selector that fails on a device. As in Kubernetes, the claim is at fault."""
        claim = self.claims[subrequest.claim].ref
        return Refusal(
            "claim",
            f"claim {claim}, request {subrequest.name}: {message}",
            claim=claim,
            request=subrequest.name,
            node=self.node,
            reasons=[Reason("selector-error", message)],
        )

    def _require_usable_pools(
        self, subrequest: Subrequest, claim: ResourceClaim, candidates: Candidates
    ) -> None:
        for pool, problem in sorted(self.supply.unusable, key=lambda each: each[0].key):
            for device, message in candidates.errors.items():
                # Pools are checked in their order, so an error in an earlier pool is reported first.
                if self.supply.pool_rank(device) < (False, pool.key):
                    raise self.selector_refusal(subrequest, message)
            raise Refusal(
                "node",
                f"claim {claim.ref}, request {subrequest.name}: asks for all devices, "
                f"but resource pool {pool.driver}/{pool.name} is {problem}",
                claim=claim.ref,
                request=subrequest.name,
                node=self.node,
                reasons=[pool_reason(pool, problem) for pool, problem in self.supply.unusable],
            )


def _find_impossibility(subrequest: Subrequest, candidates: Candidates) -> Reason | None:
    usable = len(candidates.devices)
    if subrequest.count is None:
        if candidates.missing:
            return Reason("too-few", "all devices that match are needed, and not all are available")
        return None if usable else Reason("too-few", "all devices that match are needed, and none matches")
    if subrequest.count > usable:
        return too_few_reason(subrequest.count, usable)
    return None


def too_few_reason(wanted: int, usable: int) -> Reason:
    """Return the reason for a request that can use fewer devices than it needs."""
    return Reason("too-few", f"{wanted} device{'s are' if wanted != 1 else ' is'} needed, {usable} can be used")


def pool_reason(pool: PoolView, problem: str) -> Reason:
    """Return the reason for a pool that has this problem and so serves no request."""
    is_invalid = problem.startswith(("invalid", "not served"))
    code: ReasonCode = "pool-invalid" if is_invalid else "pool-incomplete"
    return Reason(code, f"resource pool {pool.driver}/{pool.name} is {problem}")


def number_kinds(requests: Sequence[RequestPlan]) -> list[int]:
    """Return a number for each request. Requests with equal numbers can be served by the same choices."""
    numbers: dict[Hashable, int] = {}
    kinds = []
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
        kinds.append(numbers.setdefault(key, len(numbers)))
    return kinds
