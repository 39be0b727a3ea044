"""Colors of states."""

import sys

import click
import pytest

from dradriver.cli.terminal.color import has_color, paint_state


@pytest.mark.parametrize(
    ("column", "text", "color"),
    [
        ("status", "Running", "green"),
        ("state", "allocated,reserved", "green"),
        ("state", "pending", "yellow"),
        ("status", "Init:0/1", "yellow"),
        ("status", "CrashLoopBackOff", "red"),
        ("health", "unhealthy", "red"),
        ("problem", "incomplete: 1 of 2 slices", "red"),
    ],
)
def test_a_state_has_the_color_of_its_meaning(column: str, text: str, color: str) -> None:
    assert paint_state(column, text) == click.style(text, fg=color)


@pytest.mark.parametrize(("column", "text"), [("name", "Running"), ("health", "-"), ("problem", "-")])
def test_names_and_empty_cells_have_no_color(column: str, text: str) -> None:
    assert paint_state(column, text) == text


@pytest.mark.parametrize(
    ("variables", "expected"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_only_a_terminal_has_colors_unless_they_are_turned_off(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert has_color() == expected
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    assert not has_color()
