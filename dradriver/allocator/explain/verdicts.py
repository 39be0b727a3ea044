"""Explains for each request why a node suits a pod's claims or not.

A refusal describes the obstacles at the furthest point of the search. A verdict covers every request: the
devices that can serve it without regard to other requests, and the reason for each group of other devices.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dradriver.allocator.explain.refusal import Reason, Refusal, Reporter
from dradriver.model.resource.claim import Allocation, DeviceId, DeviceResult

__all__ = ["NodeVerdict", "RequestVerdict", "verdict"]

Ask: TypeAlias = Callable[[Reporter], Mapping[str, Allocation]]
"""Allocates and calls a reporter: `allocate` or `Placer.allocate_on` with all other arguments bound."""


@dataclass(frozen=True, slots=True)
class RequestVerdict:
    """One request of one claim, or one alternative of it.

    Attributes:
        claim: `namespace/name`.
        request: the name in results: `gpu` or `gpu/large`.
        candidates: the devices that can serve it, without regard to other requests.
        reasons: why the other devices are excluded, and why no choice of the candidates works if none does.
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
        pools: pools that the node reaches and that can't be used.
    """

    allocations: Mapping[str, Allocation] | None
    refusal: Refusal | None
    requests: tuple[RequestVerdict, ...]
    pools: tuple[Reason, ...]

    @property
    def results(self) -> list[DeviceResult]:
        """Return the devices that the claims get."""
        return [result for each in (self.allocations or {}).values() for result in each.devices.results]


def verdict(ask: Ask) -> NodeVerdict:
    """Allocate on a node with a reporter that collects the reasons, and return the verdict."""
    heard = _Listener()
    try:
        return NodeVerdict(ask(heard), None, heard.verdicts(None), ())
    except Refusal as refusal:
        pools = tuple(reason for reason in refusal.reasons if _of_pool(reason))
        return NodeVerdict(None, refusal, heard.verdicts(refusal), pools)


def _of_pool(reason: Reason) -> bool:
    return reason.code in {"pool-incomplete", "pool-invalid"}


@dataclass
class _Heard:
    claim: str
    request: str
    candidates: tuple[DeviceId, ...] = ()
    rejections: list[Reason] = field(default_factory=list)

    def is_blamed(self, refusal: Refusal) -> bool:
        """Return whether the search got no further than this request, or than another alternative of it."""
        same = refusal.request in {self.request, self.request.partition("/")[0]}
        return same and refusal.claim == self.claim

    def may_be_about(self, reason: Reason) -> bool:
        """Return whether a reason is about candidates of this request."""
        return set(reason.devices) <= set(self.candidates)


class _Listener(Reporter):
    """Collects the reports of the planner for each request."""

    def __init__(self) -> None:
        self.requests: dict[str, _Heard] = {}

    def considered(self, request: str, devices: Sequence[DeviceId]) -> None:
        """Keep the candidates."""
        self._heard(request).candidates = tuple(devices)

    def rejected(self, request: str, reason: Reason) -> None:
        """Keep the rejection."""
        self._heard(request).rejections.append(reason)

    def verdicts(self, refusal: Refusal | None) -> tuple[RequestVerdict, ...]:
        """Return the collected reports; the request to blame also gets the obstacles of the search."""
        told = {reason for heard in self.requests.values() for reason in heard.rejections}
        met = [each for each in refusal.reasons if each not in told and not _of_pool(each)] if refusal else []
        return tuple(
            RequestVerdict(
                heard.claim,
                heard.request,
                heard.candidates,
                (
                    *(r for r in met if refusal and heard.is_blamed(refusal) and heard.may_be_about(r)),
                    *dict.fromkeys(heard.rejections),
                ),
            )
            for heard in self.requests.values()
        )

    def _heard(self, request: str) -> _Heard:
        claim, _, name = request.rpartition(":")
        return self.requests.setdefault(request, _Heard(claim, name))
