"""Why a node suits a pod's claims or not, request by request.

A refusal says what stood in the way where the search got furthest. Here every request is answered: which
devices may serve it as far as it alone is concerned, and what turned down each group of the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dradriver.allocator.explain.refusal import Reason, Refusal, Reporter
from dradriver.model.resource.claim import Allocation, DeviceId, DeviceResult

__all__ = ["NodeVerdict", "RequestVerdict", "verdict"]

Ask: TypeAlias = Callable[[Reporter], Mapping[str, Allocation]]
"""Allocates and tells a reporter: `allocate` or `Placer.allocate_on` with everything else given."""


@dataclass(frozen=True, slots=True)
class RequestVerdict:
    """One request of one claim, or one alternative of it.

    Attributes:
        claim: `namespace/name`.
        request: as results name it: `gpu` or `gpu/large`.
        candidates: the devices that may serve it, as far as the request alone is concerned.
        reasons: what turned down the other devices, and what keeps the candidates away if no choice of them
            will do.
    """

    claim: str
    request: str
    candidates: tuple[DeviceId, ...]
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """One node.

    Attributes:
        allocations: what the claims get there, by UID or `namespace/name`; None when they don't fit.
        refusal: why not; None when they fit.
        requests: request by request, in their order; none where something is wrong with a claim itself.
        pools: pools that the node reaches and that can't be used.
    """

    allocations: Mapping[str, Allocation] | None
    refusal: Refusal | None
    requests: tuple[RequestVerdict, ...]
    pools: tuple[Reason, ...]

    @property
    def results(self) -> list[DeviceResult]:
        """The devices that the claims get."""
        return [result for each in (self.allocations or {}).values() for result in each.devices.results]


def verdict(ask: Ask) -> NodeVerdict:
    """Asks for an allocation on a node and listens to why it fits or does not."""
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
        """Whether the search got no further than to this request, or to another alternative of it."""
        same = refusal.request in {self.request, self.request.partition("/")[0]}
        return same and refusal.claim == self.claim

    def may_be_about(self, reason: Reason) -> bool:
        """Whether a reason is about candidates of this one."""
        return set(reason.devices) <= set(self.candidates)


class _Listener(Reporter):
    """Keeps what the planner tells of each request."""

    def __init__(self) -> None:
        self.requests: dict[str, _Heard] = {}

    def considered(self, request: str, devices: Sequence[DeviceId]) -> None:
        """Keeps the candidates."""
        self._heard(request).candidates = tuple(devices)

    def rejected(self, request: str, reason: Reason) -> None:
        """Keeps the rejection."""
        self._heard(request).rejections.append(reason)

    def verdicts(self, refusal: Refusal | None) -> tuple[RequestVerdict, ...]:
        """What was told, and for the request that is to blame also what the search met."""
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
