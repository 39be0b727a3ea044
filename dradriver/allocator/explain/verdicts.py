"""Explains for each request of a pod's claims why a node can or can't serve the request.

A refusal describes the obstacles at the furthest point of the search. A verdict covers every request. It lists
the devices that can serve the request if the other requests are disregarded, and the reasons against the other
devices.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dradriver.allocator.explain.refusal import Reason, Refusal, Reporter
from dradriver.model.resource.claim import Allocation, DeviceId, DeviceResult

__all__ = ["NodeVerdict", "RequestVerdict", "explain_allocation"]

AllocateCall: TypeAlias = Callable[[Reporter], Mapping[str, Allocation]]
"""`allocate` or `Placer.allocate_on` with all arguments bound except the reporter."""


@dataclass(frozen=True, slots=True)
class RequestVerdict:
    """One request of one claim, or one alternative of it.

    Attributes:
        claim: `namespace/name` of the claim.
        request: the name in allocation results: `gpu` or `gpu/large`.
        candidates: the devices that can serve the request if the other requests are disregarded.
        reasons: the reasons why the other devices are excluded. If no choice of the candidates works, also the
            reasons for this.
    """

    claim: str
    request: str
    candidates: tuple[DeviceId, ...]
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """The verdict for one node.

    Attributes:
        allocations: the allocations on this node, by UID or `namespace/name`; None if the claims don't fit.
        refusal: the refusal; None if the claims fit.
        requests: the verdict for each request, in order; empty if a claim itself is wrong.
        pools: the pools that the node reaches but can't use.
    """

    allocations: Mapping[str, Allocation] | None
    refusal: Refusal | None
    requests: tuple[RequestVerdict, ...]
    pools: tuple[Reason, ...]

    @property
    def results(self) -> list[DeviceResult]:
        """Return the devices that the allocations contain."""
        return [result for each in (self.allocations or {}).values() for result in each.devices.results]


def explain_allocation(allocate: AllocateCall) -> NodeVerdict:
    """Call `allocate` with a reporter that collects the reasons, and return the verdict."""
    report = _ReportCollector()
    try:
        return NodeVerdict(allocate(report), None, report.verdicts(None), ())
    except Refusal as refusal:
        pools = tuple(reason for reason in refusal.reasons if _of_pool(reason))
        return NodeVerdict(None, refusal, report.verdicts(refusal), pools)


def _of_pool(reason: Reason) -> bool:
    return reason.code in {"pool-incomplete", "pool-invalid"}


@dataclass
class _RequestReport:
    claim: str
    request: str
    candidates: tuple[DeviceId, ...] = ()
    rejections: list[Reason] = field(default_factory=list)

    def is_blamed(self, refusal: Refusal) -> bool:
        """Return whether the refusal names this request; for an alternative, also the request as a whole."""
        is_request = refusal.request in {self.request, self.request.partition("/")[0]}
        return is_request and refusal.claim == self.claim

    def may_be_about(self, reason: Reason) -> bool:
        """Return whether the reason can concern candidates of this request."""
        return set(reason.devices) <= set(self.candidates)


class _ReportCollector(Reporter):
    """Collects, for each request, what the planner reports."""

    def __init__(self) -> None:
        self.requests: dict[str, _RequestReport] = {}

    def considered(self, request: str, devices: Sequence[DeviceId]) -> None:
        """Keep the candidates."""
        self._report(request).candidates = tuple(devices)

    def rejected(self, request: str, reason: Reason) -> None:
        """Keep the reason."""
        self._report(request).rejections.append(reason)

    def verdicts(self, refusal: Refusal | None) -> tuple[RequestVerdict, ...]:
        """Return a verdict for each request. The request that caused the refusal also gets its reasons."""
        rejected_before = {reason for report in self.requests.values() for reason in report.rejections}
        obstacles = (
            [each for each in refusal.reasons if each not in rejected_before and not _of_pool(each)]
            if refusal
            else []
        )
        return tuple(
            RequestVerdict(
                report.claim,
                report.request,
                report.candidates,
                (
                    *(r for r in obstacles if refusal and report.is_blamed(refusal) and report.may_be_about(r)),
                    *dict.fromkeys(report.rejections),
                ),
            )
            for report in self.requests.values()
        )

    def _report(self, request: str) -> _RequestReport:
        claim, _, name = request.rpartition(":")
        return self.requests.setdefault(request, _RequestReport(claim, name))
