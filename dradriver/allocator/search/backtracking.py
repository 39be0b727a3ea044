"""Visits choices depth first.

The stack is explicit because a pod may request more devices than Python has stack frames.

`search` and `prover` answer different questions and order the requests differently. Both use this module: each
level of the stack chooses one device, and only one device of each equivalence class is tried.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from dradriver.allocator.meter import DEVICES
from dradriver.allocator.search.plan import SubrequestPlan
from dradriver.allocator.search.state import SearchState
from dradriver.allocator.search.symmetry import Choice, Symmetry

__all__ = ["Branches", "Pick", "backtrack", "iter_choices"]

Pick: TypeAlias = tuple[SubrequestPlan, int]
"""A plan and the number of a device that serves it."""

Branches: TypeAlias = "Iterator[Branches | None]"
"""The ways to continue from one state. Each item is the next level; None means that the choices are complete.

Whenever the iterator is resumed or ends, the state must be the same as when the iterator was created.
"""

_END: Final = object()


def backtrack(root: Branches, is_interrupted: Callable[[], bool] = lambda: False) -> bool | None:
    """Visit branches until the choices are complete. These choices stay chosen.

    Returns:
        Whether complete choices exist; None if `is_interrupted` returned True. In this case the choices made so
        far stay chosen.
    """
    stack = [root]
    while stack:
        branch = next(stack[-1], _END)
        if branch is _END:
            stack.pop()
        elif branch is None:
            return True
        elif is_interrupted():
            return None
        else:
            stack.append(branch)  # type: ignore[arg-type]  # the sentinel confuses mypy
    return False


def iter_choices(
    plan: SubrequestPlan,
    positions: range,
    state: SearchState,
    symmetry: Symmetry,
    on_reached: Callable[[int], None] | None = None,
) -> Iterator[tuple[int, int]]:
    """Yield one candidate of each equivalence class: the first that fits now, as (position, device).

    The candidates are read in order.

    Args:
        plan: the plan with the candidates.
        positions: the positions to read in `plan.devices`.
        state: the state of the search.
        symmetry: decides which candidates are equivalent.
        on_reached: called with each candidate before the candidate is checked.
    """
    seen_choices = set[Choice]()
    for position in positions:
        symmetry.meter.spend(DEVICES)
        device = plan.devices[position]
        if on_reached is not None:
            on_reached(device)
        if not state.fits(device, plan.use):
            continue
        choice = symmetry.choice_class(device)
        if choice not in seen_choices:
            seen_choices.add(choice)
            yield position, device
