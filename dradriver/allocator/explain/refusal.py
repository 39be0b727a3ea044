"""Why not? What a refusal carries, and the hooks through which a search can be watched."""

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
"""The closer a device came to being chosen, the more its obstacle tells: most of a cluster's devices are
somewhere else, or of another kind."""


def telling(reason: "Reason") -> int:
    """The smaller the more the reason tells; for sorting."""
    return _TELLING.index(reason.code)


@dataclass(frozen=True, slots=True)
class Reason:
    """One obstacle, for all the devices that it turned down.

    Attributes:
        code: the kind of obstacle, for programs.
        text: the obstacle in words: `selector 2 of the request is false`.
        devices: whom it turned down; empty when it is not about single devices.
        chosen: the devices chosen before, for the same pod, that stand in their way, as far as that is known.
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
        """The reason with the names of the first few devices."""
        chosen = f": {_names(self.chosen)}" if self.chosen else ""
        return f"{self}{chosen} ({_names(self.devices)})" if self.devices else f"{self}{chosen}"


class Refusal(DraError):  # noqa: N818 - an answer more than an error
    """The claims can't be allocated (here, or at all).

    Its text is one short sentence in the manner of Kubernetes; `brief()` adds why, fit for a pod condition, and
    `text()` has all.

    Attributes:
        kind: `claim`: something is wrong with the claim or its class, no node can help;
            `node`: it does not fit on this node; `undecided`: the search gave up after its last step.
        claim: `namespace/name`, empty when no single claim is to blame.
        request: the request (`gpu`, `gpu/large`) that failed or that no choice satisfied.
        node: the node that was tried.
        reasons: what stood in the way.
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
        """The sentence with the reasons that tell most, on one line of bounded length.

        It changes little while devices change hands, so that the condition of a pod that waits need not be
        written again each time: of several claims that hold devices none is named.
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
        """The whole explanation, one reason a line."""
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
    """The reasons, those of devices that several claims hold as one."""
    held = [reason for reason in reasons if reason.text.startswith(_HELD)]
    if len(held) < 2:
        yield from reasons
        return
    devices = dict.fromkeys(device for reason in held for device in reason.devices)
    yield Reason("in-use", "in use by other claims", tuple(devices))
    yield from (reason for reason in reasons if reason not in held)


class Reporter:
    """Hooks that the allocator calls while it works; each does nothing here.

    Requests are named `namespace/claim:request`. Subclass it to trace a search or to explain one.
    """

    def considered(self, request: str, devices: Sequence[DeviceId]) -> None:
        """These devices may serve the request as far as the request alone is concerned."""

    def rejected(self, request: str, reason: Reason) -> None:
        """The devices of the reason may not serve the request."""

    def chosen(self, request: str, device: DeviceId) -> None:
        """The search tries the device for the request."""

    def backtracked(self, request: str, device: DeviceId) -> None:
        """With that device no allocation exists; it is free again."""

    def finished(self, steps: int, *, found: bool) -> None:
        """The search ended after that many tries of a device."""
