"""Finds the chosen devices that break a constraint for another device."""

from collections.abc import Iterator, Sequence

from dradriver.allocator.search.plan import SubrequestPlan
from dradriver.allocator.search.state import SearchState, SubrequestUse

__all__ = ["conflicting_devices"]


def conflicting_devices(
    state: SearchState, picks: Sequence[tuple[SubrequestPlan, int]], device: int, use: SubrequestUse
) -> tuple[int, ...]:
    """Return the chosen devices that conflict with a device in the first constraint that it breaks.

    These are the devices that exclude it individually. If only all of them together exclude it, all are
    returned. This happens for list-typed attributes without a common value. The result is empty for a device
    that lacks the attribute, because then no other device causes the conflict.

    Args:
        state: the state in which the device does not fit.
        picks: the chosen devices in that state.
        device: the device that does not fit.
        use: how it would be used.
    """
    for number, values in zip(use.constraints, use.values, strict=True):
        constraint, value = state.constraints[number], values[device]
        if constraint.joined(state.bound[number], value) is None:
            if not value:
                return ()
            bound = list(_bound(picks, number))
            return tuple(other for other, theirs in bound if constraint.clashes(value, theirs)) or tuple(
                other for other, _ in bound
            )
    return ()


def _bound(picks: Sequence[tuple[SubrequestPlan, int]], number: int) -> Iterator[tuple[int, int]]:
    """Yield the chosen devices that a constraint covers, with their values."""
    for plan, device in picks:
        for covering, values in zip(plan.use.constraints, plan.use.values, strict=True):
            if covering == number:
                yield device, values[device]
