"""The state of the screen: which view is open, what is selected, and which filters apply."""

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from dradriver.cli.top.items import ItemFilter, ItemKey

__all__ = ["ScreenState", "View", "keep_selection"]

View: TypeAlias = Literal["devices", "detail", "waiting", "changes", "problems", "help"]


@dataclass(frozen=True, slots=True)
class ScreenState:
    """What a user has chosen.

    Attributes:
        view: the open view.
        filter: filters and order of the list.
        is_typing: whether keys are text of the filter.
        selected: the selected item; None if the list is empty.
        at: position of the selected item in the list, to select a neighbor if the item vanishes.
        first: position of the first visible item of the list.
        offset: number of lines above the first visible line of the other views.
    """

    view: View = "devices"
    filter: ItemFilter = field(default_factory=ItemFilter)
    is_typing: bool = False
    selected: ItemKey | None = None
    at: int = 0
    first: int = 0
    offset: int = 0


def keep_selection(state: ScreenState, shown: tuple[ItemKey, ...]) -> ScreenState:
    """Return the state with a selected item that is in the list.

    The selected item stays selected when its position changes. If it has vanished, its neighbor is selected.
    The detail of an item stays open until the user closes it, even if the item no longer matches the filters.

    Args:
        state: the state.
        shown: the items of the list, in order.
    """
    if not shown:
        return state if state.view == "detail" else replace(state, selected=None, at=0, first=0)
    if 0 <= state.at < len(shown) and shown[state.at] == state.selected:
        return state
    if state.selected is not None and state.selected in shown:
        return replace(state, at=shown.index(state.selected))
    if state.view == "detail" and state.selected is not None:
        return state
    at = max(0, min(state.at, len(shown) - 1))
    return replace(state, selected=shown[at], at=at)
