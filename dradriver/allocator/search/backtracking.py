"""Walks through choices depth first.

The stack is explicit because a pod may request more devices than Python has stack frames.

`search` and `prover` answer different questions and order the requests differently. Both proceed level by level
through the devices that fit, with one device of each kind.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from dradriver.allocator.search.plan import SubrequestPlan
from dradriver.allocator.search.state import SearchState
from dradriver.allocator.search.symmetry import Choice, Symmetry

__all__ = ["Branches", "Pick", "different", "walk"]

Pick: TypeAlias = tuple[SubrequestPlan, int]
"""A plan and the position of a device that serves it."""

Branches: TypeAlias = "Iterator[Branches | None]"
"""The ways to continue from one state. Each item is the next level; None marks a complete way.

When such an iterator is resumed or ends, the state is the same as when the iterator was made.
"""

_END: Final = object()


def walk(root: Branches, interrupted: Callable[[], bool] = lambda: False) -> bool | None:
    """Continue until a way is complete. The choices on that way stay chosen.

    Returns:
        Whether a complete way exists; None if the walk was interrupted. After an interruption the choices made
        so far stay chosen.
    """
    stack = [root]
    while stack:
        branch = next(stack[-1], _END)
        if branch is _END:
            stack.pop()
        elif branch is None:
            return True
        elif interrupted():
            return None
        else:
            stack.append(branch)  # type: ignore[arg-type]  # the sentinel confuses mypy
    return False


def different(
    plan: SubrequestPlan,
    places: range,
    state: SearchState,
    symmetry: Symmetry,
    look: Callable[[int], None] | None = None,
) -> Iterator[tuple[int, int]]:
    """Yield the places and positions of the candidates that fit now, one for each equivalence class.

    The first candidate of each class is taken.

    Args:
        plan: the plan with the candidates.
        places: range of places in the plan's candidates.
        state: the state of the search.
        symmetry: decides which candidates are equivalent.
        look: called with each candidate that is reached.
    """
    tried = set[Choice]()
    for place in places:
        device = plan.devices[place]
        if look is not None:
            look(device)
        if not state.fits(device, plan.use):
            continue
        like = symmetry.choice(device)
        if like not in tried:
            tried.add(like)
            yield place, device
