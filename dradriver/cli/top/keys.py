"""The keys of the screen, as a table. The help view is made from this table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from dradriver.cli.top.items import SORTS, ItemKey, Sort
from dradriver.cli.top.state import ScreenState, View

__all__ = ["KEYS", "Binding", "KeyContext", "press"]


@dataclass(frozen=True, slots=True)
class KeyContext:
    """What the keys refer to.

    Attributes:
        shown: the items of the list, in order.
        drivers: all drivers.
        page: number of items or lines that a page has.
    """

    shown: tuple[ItemKey, ...] = ()
    drivers: Sequence[str] = ()
    page: int = 10


Transition: TypeAlias = Callable[[ScreenState, KeyContext], ScreenState]


@dataclass(frozen=True, slots=True)
class Binding:
    """Keys with one meaning.

    Attributes:
        keys: names of keys, as `dradriver.cli.top.terminal` reports them.
        label: the keys as the help names them.
        help: what the keys do.
        apply: the transition.
    """

    keys: tuple[str, ...]
    label: str
    help: str
    apply: Transition


def _move(steps: Callable[[KeyContext], int]) -> Transition:
    """Return a transition that moves the selection of the list, or scrolls another view."""

    def move(state: ScreenState, context: KeyContext) -> ScreenState:
        by = steps(context)
        if state.view != "devices":
            return replace(state, offset=max(0, state.offset + by))
        if not context.shown:
            return state
        at = max(0, min(state.at + by, len(context.shown) - 1))
        return replace(state, at=at, selected=context.shown[at])

    return move


def _go(view: View) -> Transition:
    """Return a transition that opens a view, or closes it if it is open."""

    def go(state: ScreenState, _: KeyContext) -> ScreenState:
        return replace(state, view="devices" if state.view == view else view, offset=0)

    return go


def _open(state: ScreenState, _: KeyContext) -> ScreenState:
    if state.view == "devices" and state.selected is not None:
        return replace(state, view="detail", offset=0)
    return state


def _back(state: ScreenState, _: KeyContext) -> ScreenState:
    if state.view != "devices":
        return replace(state, view="devices", offset=0)
    return replace(
        state, filter=state.filter._replace(text="", driver="", only_problems=False, only_free=False)
    )


def _type(state: ScreenState, _: KeyContext) -> ScreenState:
    return replace(state, view="devices", is_typing=True)


def _next_sort(state: ScreenState, _: KeyContext) -> ScreenState:
    sorts: list[Sort] = list(SORTS)
    following = sorts[(sorts.index(state.filter.sort) + 1) % len(sorts)]
    return replace(state, view="devices", filter=state.filter._replace(sort=following))


def _next_driver(state: ScreenState, context: KeyContext) -> ScreenState:
    choices = ["", *context.drivers]
    at = choices.index(state.filter.driver) if state.filter.driver in choices else 0
    chosen = choices[(at + 1) % len(choices)]
    return replace(state, view="devices", filter=state.filter._replace(driver=chosen))


def _only_problems(state: ScreenState, _: KeyContext) -> ScreenState:
    wanted = state.filter._replace(only_problems=not state.filter.only_problems)
    return replace(state, view="devices", filter=wanted)


def _only_free(state: ScreenState, _: KeyContext) -> ScreenState:
    return replace(state, view="devices", filter=state.filter._replace(only_free=not state.filter.only_free))


_EVERYTHING: Final = 1_000_000_000

KEYS: Final[Sequence[Binding]] = (
    Binding(("up", "k"), "Up, k", "previous row, or scroll up", _move(lambda _: -1)),
    Binding(("down", "j"), "Down, j", "next row, or scroll down", _move(lambda _: 1)),
    Binding(("pgup", "ctrl-b"), "Page Up", "one page up", _move(lambda context: -context.page)),
    Binding(("pgdn", "ctrl-f", " "), "Page Down, Space", "one page down", _move(lambda context: context.page)),
    Binding(("home", "g"), "Home, g", "first row", _move(lambda _: -_EVERYTHING)),
    Binding(("end", "G"), "End, G", "last row", _move(lambda _: _EVERYTHING)),
    Binding(("enter",), "Enter", "the selected node or pool in detail", _open),
    Binding(("esc",), "Esc", "back to the list; in the list: remove all filters", _back),
    Binding(("/",), "/", "type words that a row must contain: Enter keeps, Esc removes them", _type),
    Binding(("d",), "d", "only the next driver, then all drivers again", _next_driver),
    Binding(("p",), "p", "only rows with problems", _only_problems),
    Binding(("f",), "f", "only rows with free devices", _only_free),
    Binding(("s",), "s", "next order: name, used, free, problems", _next_sort),
    Binding(("w",), "w", "all pods and claims that wait", _go("waiting")),
    Binding(("c",), "c", "all recent changes", _go("changes")),
    Binding(("b",), "b", "pools that cannot be used (broken)", _go("problems")),
    Binding(("?", "h"), "?, h", "this help", _go("help")),
)
"""All keys but `q` and Ctrl-C, which end the program, and Ctrl-L, which draws the screen again."""

_BY_KEY: Final[Mapping[str, Transition]] = {key: binding.apply for binding in KEYS for key in binding.keys}


def press(state: ScreenState, key: str, context: KeyContext) -> ScreenState:
    """Return the state after a key. A key without a meaning changes nothing.

    Args:
        state: the state before.
        key: name of the key, or the typed character.
        context: what the key refers to.
    """
    if state.is_typing:
        return _edit(state, key)
    transition = _BY_KEY.get(key)
    return state if transition is None else transition(state, context)


def _edit(state: ScreenState, key: str) -> ScreenState:
    text = state.filter.text
    match key:
        case "enter":
            return replace(state, is_typing=False)
        case "esc":
            return replace(state, is_typing=False, filter=state.filter._replace(text=""))
        case "backspace":
            return replace(state, filter=state.filter._replace(text=text[:-1]))
        case "ctrl-u":
            return replace(state, filter=state.filter._replace(text=""))
        case _ if len(key) == 1 and key.isprintable():
            return replace(state, filter=state.filter._replace(text=text + key))
        case _:
            return state
