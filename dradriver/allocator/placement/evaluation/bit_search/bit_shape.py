"""The requests and constraints of a claim shape as bit sets, as nodes with equal pools see them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from dradriver.allocator.placement.evaluation.bit_search.layout import Layout
from dradriver.allocator.placement.evaluation.bit_search.symmetry import BitSymmetry
from dradriver.allocator.request.subrequests import Subrequest

__all__ = ["BitAlternative", "BitConstraint", "BitRequest", "BitShape"]

_MAX_KNOWN: Final = 1000
"""Maximum number of results that a constraint caches."""


@dataclass(frozen=True, slots=True)
class BitAlternative:
    """An alternative of a request.

    Attributes:
        subrequest: the subrequest. It has no admin access.
        count: number of devices.
        candidates: the devices that can serve it, as bits. None of them is shareable.
        constraints: the numbers of the constraints that cover it.
    """

    subrequest: Subrequest
    count: int
    candidates: int
    constraints: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BitRequest:
    """A request.

    Attributes:
        claim: index of the claim.
        alternatives: its alternatives in order of preference. A plain request has one.
    """

    claim: int
    alternatives: tuple[BitAlternative, ...]

    @property
    def least(self) -> int:
        """Return the smallest number of devices that the request can need."""
        return min(alternative.count for alternative in self.alternatives)

    @property
    def candidates(self) -> int:
        """Return, as bits, the devices that can serve one of the alternatives."""
        candidates = 0
        for alternative in self.alternatives:
            candidates |= alternative.candidates
        return candidates


class BitConstraint:
    """A constraint; see `request.constraints`.

    Attributes:
        start: the state before any device is chosen.
        values: for each device, the value as bits.
    """

    def __init__(self, values: Sequence[int], *, distinct: bool) -> None:
        """Create a constraint.

        Args:
            values: for each device, the value as bits, as `Constraint.published_value` returns it; never
                `LIST`.
            distinct: True for distinctAttribute, False for matchAttribute.
        """
        self.start = 0 if distinct else -1
        self._distinct = distinct
        self.values = values
        self._devices: dict[int, int] = {}
        for device, value in enumerate(values):
            if value:
                self._devices[value] = self._devices.get(value, 0) | 1 << device
        self._known_open: dict[int, int] = {}

    def open(self, state: int) -> int:
        """Return, as bits, the devices that may join.

        Args:
            state: the state of the constraint.
        """
        devices = self._known_open.get(state)
        if devices is None:
            if len(self._known_open) >= _MAX_KNOWN:
                self._known_open.clear()
            devices = 0
            for value, mask in self._devices.items():
                if bool(value & state) is not self._distinct:
                    devices |= mask
            self._known_open[state] = devices
        return devices

    def join(self, state: int, device: int) -> int:
        """Return the new state after an open device joins.

        Args:
            state: the state of the constraint.
            device: the number of the device.
        """
        value = self.values[device]
        return state | value if self._distinct else state & value


class BitShape:
    """A claim shape, as nodes whose pools have the same blueprints see it.

    Attributes:
        layout: the numbering of the devices.
        requests: the requests of all claims, in order.
        constraints: the constraints of all claims.
        needed_later: for each request, the least number of devices that the later requests of its claim need.
        demands: for each request, pairs of (devices, number): this request and the later ones need at least
            this number of these devices.
        alone: for each request, the alternatives of this request and the later ones, one request of each kind.
            Requests that `demands` covers are left out: those with one alternative and no constraints.
        depth: maximum number of nested choices.
        parts: by candidates of an alternative: the parts with candidates (`Layout.find_parts`).
    """

    def __init__(
        self, layout: Layout, requests: Sequence[BitRequest], constraints: Sequence[BitConstraint] = ()
    ) -> None:
        self.layout = layout
        self.requests = tuple(requests)
        self.constraints = tuple(constraints)
        self.needed_later = [
            sum(later.least for later in self.requests[number + 1 :] if later.claim == request.claim)
            for number, request in enumerate(self.requests)
        ]
        self.demands = [_find_demands(self.requests[number:]) for number in range(len(self.requests))]
        self.alone = [_one_of_each_kind(self.requests[number:]) for number in range(len(self.requests))]
        self.depth = sum(1 + max(each.count for each in request.alternatives) for request in self.requests)
        alternatives = (each for request in self.requests for each in request.alternatives)
        self.parts = {each.candidates: layout.find_parts(each.candidates) for each in alternatives}

    @cached_property
    def symmetry(self) -> BitSymmetry:
        """Find equivalent choices."""
        values = [constraint.values for constraint in self.constraints]
        return BitSymmetry(self.layout, tuple(self.parts), values)


def _find_demands(requests: Sequence[BitRequest]) -> list[tuple[int, int]]:
    needs = [(request.candidates, request.least) for request in requests]
    sets = dict.fromkeys(candidates for candidates, _ in needs)
    return [(mask, sum(least for candidates, least in needs if not candidates & ~mask)) for mask in sets]


def _one_of_each_kind(requests: Sequence[BitRequest]) -> tuple[tuple[BitAlternative, ...], ...]:
    kinds = {
        tuple((each.candidates, each.count, each.constraints) for each in request.alternatives): request
        for request in requests
        if len(request.alternatives) > 1 or request.alternatives[0].constraints
    }
    return tuple(request.alternatives for request in kinds.values())
