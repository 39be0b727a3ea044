"""Tables and prose fit the terminal, and no name in them is broken."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dradriver.cli.terminal.layout import table_lines, wrap

names = st.text("abcdefg0123456789-./=", min_size=1, max_size=30)
cells = st.lists(names, min_size=1, max_size=5).map(" ".join) | st.lists(names, min_size=1).map(",".join)
COLUMNS = ("name", "driver", "pool", "why")


def tokens(text: str) -> list[str]:
    return re.findall(r"[^ ,]+", text)


@given(st.lists(st.tuples(*[cells] * len(COLUMNS)), min_size=1, max_size=4), st.integers(30, 160))
def test_no_name_is_broken_and_only_a_single_word_is_longer_than_a_line(
    rows: list[tuple[str, ...]], width: int
) -> None:
    lines = list(table_lines(COLUMNS, rows, width))
    printed = [token for line in lines for token in tokens(line)]
    for row in rows:
        for cell in row:
            assert set(tokens(cell)) <= set(printed) | {"-"}
    for line in lines:
        first = next((match.end() for match in re.finditer(r"^ *(\w+: )?[^ ,]+,*", line)), 0)
        widest = max(len(row[0]) for row in rows)
        assert len(line) <= max(width, first, widest)


@given(st.lists(names, min_size=1, max_size=40), st.integers(20, 100))
def test_prose_keeps_all_words(words: list[str], width: int) -> None:
    text = "  " + " ".join(words)
    lines = list(wrap(text, width))
    assert tokens(" ".join(lines)) == tokens(text)
    assert all(len(line) <= width or len(tokens(line)) == 1 for line in lines)


def test_columns_that_do_not_fit_are_below_their_row() -> None:
    row = ["gpu-0", "gpu.example.com", "p", "0/1 nodes are available"]
    assert list(table_lines(COLUMNS, [row], 30)) == [
        "NAME   DRIVER           POOL",
        "gpu-0  gpu.example.com  p",
        "    why: 0/1 nodes are",
        "      available",
    ]
    assert list(table_lines(COLUMNS, [row], 20)) == [
        "NAME   POOL",
        "gpu-0  p",
        "    driver:",
        "      gpu.example.com",
        "    why: 0/1 nodes",
        "      are available",
    ]


@pytest.mark.parametrize("width", [80, 100, 140, 1_000_000])
def test_a_table_that_fits_has_one_line_for_each_row(width: int) -> None:
    assert len(list(table_lines(COLUMNS, [["a", "b", "c", "d"], ["e", "f", "g", "-"]], width))) == 3


def test_columns_are_aligned_after_characters_that_need_two_columns() -> None:
    lines = list(table_lines(("label", "node"), [("\u5e74\u5e74", "a"), ("abcdef", "b")], 80))
    assert lines == ["LABEL   NODE", "\u5e74\u5e74    a", "abcdef  b"]


def test_control_characters_are_shown_and_not_sent_to_the_terminal() -> None:
    _, line = table_lines(("label", "node"), [("a\x1b[31m\tb\nc", "\x9b2J")], 80)
    assert line == "a^[[31m^Ib c  ^[2J"
