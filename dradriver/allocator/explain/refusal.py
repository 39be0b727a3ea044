"""Refusals with their reasons, and the hooks through which a search can be observed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dradriver.errors import DraError
from dradriver.model.resource.claim import DeviceId

__all__ = ["Kind", "Reason", "ReasonCode", "Refusal", "Reporter", "telling"]

Kind: TypeAlias = Literal["claim", "node", "undecided"]

ReasonCode: TypeAlias = Literal[
    "pool-incomplete", "pool-invalid", "feature-gate", "node", "in-use", "selector", "selector-error", "taint",
    "counter", "capacity", "groups", "constraint", "too-few", "too-many", "class", "unsupported", "steps",
]  # fmt: skip

_NAMED = 4
_TOLD = 3
_HELD = "in use by claim"
_BRIEF = 240

_TELLING: tuple[ReasonCode, ...] = (
    "steps", "too-many", "class", "unsupported", "selector-error", "pool-invalid", "counter", "groups",
    "capacity", "constraint", "in-use", "taint", "feature-gate", "pool-incomplete", "too-few", "selector",
    "node",
)  # fmt: skip
"""Reason codes, the most informative first.

An obstacle is more informative if it excluded the device at a later step. Most devices of a cluster are on
other nodes or of another kind.
"""


def telling(reason: "Reason") -> int:
    """Return the sort key of a reason. A smaller value is more informative."""
    return _TELLING.index(reason.code)


@dataclass(frozen=True, slots=True)
class Reason:
    """One obstacle, with all the devices that it excluded.

    Attributes:
        code: the kind of obstacle, for programs.
        text: the obstacle in words: `selector 2 of the request is false`.
        devices: the excluded devices; empty if the obstacle is not about single devices.
        chosen: devices chosen before for the same pod that conflict with them, as far as known.
    """

    code: ReasonCode
    text: str
    devices: tuple[DeviceId, ...] = ()
    chosen: tuple[DeviceId, ...] = ()

    def __str__(self) -> str:
        count = len(self.devices)
        if not count:
            return self.text
        return f"{count} device{'s' if count > 1 else ''}: {self.text}"

    def in_full(self) -> str:
        """Return the reason with the names of the first few devices."""
        chosen = f": {_names(self.chosen)}" if self.chosen else ""
        return f"{self}{chosen} ({_names(self.devices)})" if self.devices else f"{self}{chosen}"


class Refusal(DraError):  # noqa: N818 - an answer more than an error
    """The claims can't be allocated on this node, or on any node.

    Its text is one short sentence in Kubernetes' style. `brief()` adds reasons, in a form for a pod condition.
    `text()` has all reasons.

    Attributes:
        kind: `claim`: the claim or its class is wrong, and no node can serve it; `node`: it does not fit on
            this node; `undecided`: the search gave up after its last step.
        claim: `namespace/name`; empty if no single claim is to blame.
        request: the request (`gpu`, `gpu/large`) that failed or that no choice satisfied.
        node: the node that was tried.
        reasons: the obstacles.
    """

    def __init__(
        self,
        kind: Kind,
        summary: str,
        *,
        claim: str = "",
        request: str = "",
        node: str = "",
        reasons: Iterable[Reason] = (),
    ) -> None:
        self.kind: Kind = kind
        self.claim = claim
        self.request = request
        self.node = node
        self.reasons: tuple[Reason, ...] = tuple(reasons)
        super().__init__(summary)

    def brief(self) -> str:
        """Return the sentence with the most informative reasons, on one line of bounded length.

        The text is stable while other claims take and release devices: if several claims hold devices, no claim
        is named. So the condition of a waiting pod is not rewritten at each change.
        """
        head = str(self)
        merged = dict.fromkeys(_merge(self.reasons))
        ranked = sorted(
            (reason for reason in merged if reason.code != "node" and reason.text not in head),
            key=telling,
        )
        if not ranked:
            return head
        places = [f"claim {self.claim}"] if self.claim and self.claim not in head else []
        places += [f"request {self.request}"] if self.request and places else []
        told = "; ".join(map(str, ranked[:_TOLD]))
        full = ": ".join(part for part in (head, ", ".join(places), told) if part)
        return full if len(full) <= _BRIEF else f"{full[: _BRIEF - 3]}..."

    def text(self) -> str:
        """Return the whole explanation, one reason on each line."""
        places = [f"node {self.node}"] if self.node else []
        places += [f"claim {self.claim}"] if self.claim else []
        places += [f"request {self.request}"] if self.request else []
        place, head = ", ".join(places), str(self)
        if place and not head.startswith(place):  # Kubernetes' own sentences name the claim already
            head = f"{place}: {head}"
        news = [reason for reason in self.reasons if reason.devices or reason.text not in head]
        return "\n".join([head, *(f"  {reason.in_full()}" for reason in news)])


def _names(devices: Sequence[DeviceId]) -> str:
    more = f" and {len(devices) - _NAMED} more" if len(devices) > _NAMED else ""
    return ", ".join(map(str, devices[:_NAMED])) + more


def _merge(reasons: Sequence[Reason]) -> Iterator[Reason]:
    """Yield the reasons. The reasons for devices in use by several claims are merged into one."""
    held = [reason for reason in reasons if reason.text.startswith(_HELD)]
    if len(held) < 2:
        yield from reasons
        return
    devices = dict.fromkeys(device for reason in held for device in reason.devices)
    yield Reason("in-use", "in use by other claims", tuple(devices))
    yield from (reason for reason in reasons if reason not in held)


class Reporter:
    """Hooks that the allocator calls during a search. By default each hook does nothing.

    Requests are named `namespace/claim:request`. Subclass it to trace or explain a search.
    """

    def considered(self, request: str, devices: Sequence[DeviceId]) -> None:
        """Receive the devices that can serve the request, without regard to other requests."""

    def rejected(self, request: str, reason: Reason) -> None:
        """Receive a reason with the devices that can't serve the request."""

    def chosen(self, request: str, device: DeviceId) -> None:
        """Receive a device that the search tries for the request."""

    def backtracked(self, request: str, device: DeviceId) -> None:
        """Receive a device that is free again, because no allocation exists with it."""

    def finished(self, steps: int, *, found: bool) -> None:
        """Receive the end of the search and the number of device choices."""
