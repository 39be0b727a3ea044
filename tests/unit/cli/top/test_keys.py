"""Each key of the table changes the state in one way."""

from dataclasses import replace

import pytest

from dradriver.cli.top.items import ItemFilter, ItemKey
from dradriver.cli.top.keys import KEYS, KeyContext, press
from dradriver.cli.top.state import ScreenState, keep_selection

SHOWN = tuple(ItemKey("node", f"node-{number}") for number in range(100))
CONTEXT = KeyContext(SHOWN, ("a.example.com", "b.example.com"), page=10)


def pressed(*keys: str, state: ScreenState | None = None, context: KeyContext = CONTEXT) -> ScreenState:
    state = keep_selection(state or ScreenState(), context.shown)
    for key in keys:
        state = press(state, key, context)
    return state


@pytest.mark.parametrize(
    ("keys", "at"),
    [
        (["up"], 0),
        (["down"], 1),
        (["j", "j", "k"], 1),
        (["pgdn"], 10),
        ([" ", "pgup", "down"], 1),
        (["end"], 99),
        (["G", "down"], 99),
        (["end", "home"], 0),
    ],
)
def test_keys_move_the_selection_within_the_list(keys: list[str], at: int) -> None:
    state = pressed(*keys)
    assert (state.at, state.selected) == (at, SHOWN[at])


def test_keys_scroll_the_other_views() -> None:
    assert pressed("?", "down", "pgdn", "up").offset == 10
    assert pressed("?", "up").offset == 0


@pytest.mark.parametrize(
    ("key", "view"), [("enter", "detail"), ("w", "waiting"), ("c", "changes"), ("b", "problems"), ("?", "help")]
)
def test_a_view_is_opened_and_left(key: str, view: str) -> None:
    assert pressed(key).view == view
    assert pressed(key, "esc").view == "devices"


def test_filters_and_order_are_chosen() -> None:
    assert pressed("p", "f").filter == ItemFilter(only_problems=True, only_free=True)
    assert pressed("p", "p").filter == ItemFilter()
    assert [pressed(*"s" * times).filter.sort for times in range(5)] == [
        "name",
        "used",
        "free",
        "problems",
        "name",
    ]
    assert [pressed(*"d" * times).filter.driver for times in range(4)] == ["", *CONTEXT.drivers, ""]


def test_a_driver_that_has_vanished_is_followed_by_the_first() -> None:
    state = ScreenState(filter=ItemFilter(driver="gone.example.com"))
    assert pressed("d", state=state).filter.driver == "a.example.com"


def test_escape_removes_the_filters_but_keeps_the_order() -> None:
    assert pressed("s", "p", "f", "d", "/", "x", "enter", "esc").filter == ItemFilter("used")


def test_typed_keys_are_the_text_of_the_filter() -> None:
    state = pressed("/", *"qps d")
    assert (state.filter.text, state.is_typing, state.filter.only_problems) == ("qps d", True, False)
    assert pressed("backspace", state=state).filter.text == "qps "
    assert pressed("ctrl-u", state=state).filter.text == ""
    kept = pressed("enter", state=state)
    assert (kept.filter.text, kept.is_typing) == ("qps d", False)
    removed = pressed("esc", state=state)
    assert (removed.filter.text, removed.is_typing) == ("", False)


def test_other_keys_change_nothing() -> None:
    typing = pressed("/", "x")
    assert [press(typing, key, CONTEXT) for key in ("pgdn", "ctrl-l")] == [typing, typing]
    assert press(ScreenState(), "z", CONTEXT) == ScreenState()


def test_no_key_has_two_meanings() -> None:
    keys = [key for binding in KEYS for key in binding.keys]
    assert len(keys) == len(set(keys))
    assert "q" not in keys


def test_no_key_fails_without_items() -> None:
    empty = KeyContext()
    for binding in KEYS:
        for key in binding.keys:
            pressed(key, context=empty)


def test_the_selection_follows_its_item() -> None:
    state = pressed("down", "down")
    assert keep_selection(state, SHOWN[1:]).at == 1
    assert keep_selection(state, SHOWN[1:]).selected == SHOWN[2]


def test_the_neighbor_of_a_vanished_item_is_selected() -> None:
    state = pressed("end")
    assert keep_selection(state, SHOWN[:50]).selected == SHOWN[49]


def test_the_detail_of_a_vanished_item_stays_open() -> None:
    state = replace(pressed("enter"), selected=ItemKey("node", "gone"))
    assert keep_selection(state, SHOWN) == state
    assert keep_selection(state, ()) == state
