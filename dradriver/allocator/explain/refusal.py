"""Defines refusals with reasons, and the hooks that observe a search."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dradriver.errors import DraError
from dradriver.model.resource.claim import DeviceId

__all__ = ["Kind", "Reason", "ReasonCode", "Refusal", "Reporter", "rank_reason"]

Kind: TypeAlias = Literal["claim", "node", "undecided"]

ReasonCode: TypeAlias = Literal[
    "pool-incomplete", "pool-invalid", "feature-gate", "node", "in-use", "selector", "selector-error", "taint",
    "counter", "capacity", "groups", "constraint", "too-few", "too-many", "class", "unsupported", "budget",
]  # fmt: skip

_MAX_NAMES = 4
_MAX_REASONS = 3
_IN_USE_PREFIX = "in use by claim"
_MAX_BRIEF = 240

_RANKING: tuple[ReasonCode, ...] = (
    "budget", "too-many", "class", "unsupported", "selector-error", "pool-invalid", "counter", "groups",
    "capacity", "constraint", "in-use", "taint", "feature-gate", "pool-incomplete", "too-few", "selector",
    "node",
)  # fmt: skip
"""Reason codes, the most informative first.

A reason is more informative if its devices were excluded in a later step. The least informative reasons exclude
most devices of a cluster, because most devices are on other nodes or of another kind.
"""


def rank_reason(reason: "Reason") -> int:
    """Return the sort key of a reason. A reason with a smaller value is more informative."""
    return _RANKING.index(reason.code)


@dataclass(frozen=True, slots=True)
class Reason:
    """One obstacle to an allocation, with all devices that it excluded.

    Attributes:
        code: the kind of obstacle, for programs.
        text: the obstacle in words, such as `selector 2 of the request is false`.
        devices: the excluded devices; empty if the obstacle does not exclude individual devices.
        chosen: devices that were chosen earlier for the pod and conflict with the excluded devices, as far as
            known.
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

    def full_text(self) -> str:
        """Return the reason with the names of the first few devices."""
        chosen = f": {_names(self.chosen)}" if self.chosen else ""
        return f"{self}{chosen} ({_names(self.devices)})" if self.devices else f"{self}{chosen}"


class Refusal(DraError):  # noqa: N818 - an answer more than an error
    """The claims can't be allocated on this node, or on any node.

    The text of the exception is one short sentence in Kubernetes' style. `brief()` adds the most informative
    reasons and fits into a pod condition. `text()` returns all reasons.

    Attributes:
        kind: `claim`: the claim or its class is wrong, and no node can serve the claim; `node`: the claim does
            not fit on this node; `undecided`: the work exceeded the budget.
        claim: `namespace/name` of the claim that caused the refusal; empty if no single claim caused it.
        request: the request (`gpu`, `gpu/large`) that could not be served.
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
        """Return the sentence with the most informative reasons, on one line of limited length.

        The text does not change while other claims take and release devices: if several claims hold the
        devices, the text names no claim. So the condition of a waiting pod is not rewritten at each change.
        """
        head = str(self)
        merged = dict.fromkeys(_merge_held(self.reasons))
        ranked = sorted(
            (reason for reason in merged if reason.code != "node" and reason.text not in head),
            key=rank_reason,
        )
        if not ranked:
            return head
        scope = [f"claim {self.claim}"] if self.claim and self.claim not in head else []
        scope += [f"request {self.request}"] if self.request and scope else []
        reasons = "; ".join(map(str, ranked[:_MAX_REASONS]))
        full = ": ".join(part for part in (head, ", ".join(scope), reasons) if part)
        return full if len(full) <= _MAX_BRIEF else f"{full[: _MAX_BRIEF - 3]}..."

    def text(self) -> str:
        """Return the sentence and all reasons, one on each line."""
        parts = [f"node {self.node}"] if self.node else []
        parts += [f"claim {self.claim}"] if self.claim else []
        parts += [f"request {self.request}"] if self.request else []
        scope, head = ", ".join(parts), str(self)
        if scope and not head.startswith(scope):  # Kubernetes' own sentences already name the claim
            head = f"{scope}: {head}"
        reasons = [reason for reason in self.reasons if reason.devices or reason.text not in head]
        return "\n".join([head, *(f"  {reason.full_text()}" for reason in reasons)])


def _names(devices: Sequence[DeviceId]) -> str:
    more = f" and {len(devices) - _MAX_NAMES} more" if len(devices) > _MAX_NAMES else ""
    return ", ".join(map(str, devices[:_MAX_NAMES])) + more


def _merge_held(reasons: Sequence[Reason]) -> Iterator[Reason]:
    """Yield the reasons. If several claims hold devices, yield one reason for all devices in use."""
    held = [reason for reason in reasons if reason.text.startswith(_IN_USE_PREFIX)]
    if len(held) < 2:
        yield from reasons
        return
    devices = dict.fromkeys(device for reason in held for device in reason.devices)
    yield Reason("in-use", "in use by other claims", tuple(devices))
    yield from (reason for reason in reasons if reason not in held)


class Reporter:
    """Hooks that the allocator calls during a search. Each hook does nothing by default.

    Subclass `Reporter` to trace or explain a search.
    """

    def considered(self, request: str, devices: Sequence[DeviceId]) -> None:
        """Receive the devices that can serve the request if the other requests are disregarded.

        Args:
            request: `namespace/claim:request`.
            devices: the candidates, in order of preference.
        """

    def rejected(self, request: str, reason: Reason) -> None:
        """Receive a reason with the devices that can't serve the request.

        Args:
            request: `namespace/claim:request`.
            reason: the obstacle, with all devices that the obstacle excludes.
        """

    def chosen(self, request: str, device: DeviceId) -> None:
        """Receive a device that the search tries for the request.

        Args:
            request: `namespace/claim:request`.
            device: the device. Each tried device is one step of the search.
        """

    def backtracked(self, request: str, device: DeviceId) -> None:
        """Receive a device that the search gives back, because no allocation exists with this device.

        Args:
            request: `namespace/claim:request`.
            device: the device that was chosen last.
        """

    def finished(self, steps: int, *, found: bool) -> None:
        """Receive the end of the search.

        Args:
            steps: the number of device choices.
            found: whether an allocation exists.
        """
