"""docs/cli.md has exactly the existing commands and options."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dradriver.cli import main

TEXT = (Path(__file__).parents[2] / "docs/cli.md").read_text()
SECTIONS = {
    title.strip("`"): body
    for title, body in re.findall(r"^## (`dradriver [^\n]*`)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
}


def commands(command: click.Command = main, name: str = "dradriver") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        if command.invoke_without_command:
            yield name, command
        context = click.Context(command)
        for each in command.list_commands(context):
            sub = command.get_command(context, each)
            assert sub is not None
            yield from commands(sub, f"{name} {each}")
    else:
        yield name, command


COMMANDS = dict(commands())


def options(command: click.Command) -> set[str]:
    shown = (each for each in command.params if isinstance(each, click.Option) and not each.hidden)
    return {flag for each in shown for flag in each.opts}


def arguments(command: click.Command) -> set[str]:
    return {each.human_readable_name for each in command.params if isinstance(each, click.Argument)}


def test_every_command_has_a_section_and_every_section_a_command() -> None:
    assert sorted(SECTIONS) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_of_a_command_are_documented(name: str) -> None:
    body = SECTIONS[name]
    documented = set(re.findall(r"`(--?[a-zA-Z][a-z-]*)", body))
    assert options(COMMANDS[name]) == documented
    assert arguments(COMMANDS[name]) <= set(re.findall(r"`([A-Z]+)`", body))
