"""Distributes requests over the components that can serve them (Hall's condition).

A set of requests can be served only if the components that serve any of them have room for all of them. If the
candidates of requests overlap, no single set of candidates shows the shortage, but a maximum flow does: from
each request, through each component, as many devices as the component can serve of the request's candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Hub", "can_flow"]


@dataclass(frozen=True, slots=True)
class Hub:
    """A component, or several equal ones together.

    Attributes:
        room: the maximum number of devices that it serves.
        rooms: the maximum number of devices that it serves for each request.
    """

    room: int
    rooms: tuple[int, ...]


def can_flow(counts: Sequence[int], hubs: Sequence[Hub]) -> bool:
    """Return whether the hubs can serve all requests.

    Args:
        counts: the number of devices that each request needs.
        hubs: the hubs.
    """
    served = [[0] * len(hubs) for _ in counts]
    used = [0] * len(hubs)
    for request, count in enumerate(counts):
        missing = count
        while missing:
            amount = _push(request, missing, hubs, served, used)
            if not amount:
                return False
            missing -= amount
    return True


def _push(request: int, most: int, hubs: Sequence[Hub], served: list[list[int]], used: list[int]) -> int:
    """Serve more devices of a request along the shortest path. Return their number; 0 without a path."""
    before: dict[int, tuple[int, int]] = {}
    queue = [(request, most)]
    seen = {request}
    for asker, amount in queue:  # grows during the loop
        for number, hub in enumerate(hubs):
            more = min(amount, hub.rooms[asker] - served[asker][number])
            if more <= 0 or number in before:
                continue
            before[number] = asker, more
            if used[number] < hub.room:
                return _augment(request, number, min(more, hub.room - used[number]), before, served, used)
            for other, theirs in enumerate(served):
                if theirs[number] and other not in seen:
                    seen.add(other)
                    queue.append((other, min(more, theirs[number])))
                    before[-1 - other] = number, 0
    return 0


def _augment(
    request: int,
    number: int,
    amount: int,
    before: dict[int, tuple[int, int]],
    served: list[list[int]],
    used: list[int],
) -> int:
    """Move `amount` devices along the path from `request` to the hub `number`."""
    used[number] += amount
    while True:
        asker, _ = before[number]
        served[asker][number] += amount
        if asker == request:
            return amount
        number, _ = before[-1 - asker]
        served[asker][number] -= amount
