"""Going through choices depth first.

The stack is explicit: a pod may ask for more devices than Python has frames.

`search` and `prover` ask different questions in different orders of requests, but they step alike: level by
level, through the devices that fit, one of each kind.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from dradriver.allocator.search.plan import SubrequestPlan
from dradriver.allocator.search.state import SearchState
from dradriver.allocator.search.symmetry import Choice, Symmetry

__all__ = ["Branches", "Pick", "different", "walk"]

Pick: TypeAlias = tuple[SubrequestPlan, int]
"""A device, by position, and the plan that it serves."""

Branches: TypeAlias = "Iterator[Branches | None]"
"""The ways to go on from one state: each item is the next level, None is the end of a way.

When such an iterator is resumed or ends, the state is as it was when it was made.
"""

_END: Final = object()


def walk(root: Branches, interrupted: Callable[[], bool] = lambda: False) -> bool | None:
    """Goes on until a way is complete; what was chosen on it stays chosen.

    Returns:
        Whether there is one; None when it was interrupted, and then what was chosen so far stays chosen.
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
    """The candidates that fit now, with their places: of those that come to the same thing the first.

    Args:
        plan: whose candidates.
        places: which of them.
        state: what is left.
        symmetry: what comes to the same thing.
        look: is told of each candidate that is come across.
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
