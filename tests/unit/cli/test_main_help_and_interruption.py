"""Help texts of all commands, and the end of an interrupted command."""

import signal
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from dradriver.cli.main import main as root
from dradriver.cli.terminal.errors import INTERRUPTED, ErrorGroup


def commands_of(group: click.Group) -> dict[str, click.Command]:
    context = click.Context(group)
    commands = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: command for name, command in commands.items() if command is not None}


def groups() -> list[click.Group]:
    assert isinstance(root, click.Group)
    return [root, *(each for each in commands_of(root).values() if isinstance(each, click.Group))]


@pytest.mark.parametrize("group", groups(), ids=lambda group: group.name)
def test_no_summary_is_cut_off_or_wrapped_on_80_columns(group: click.Group) -> None:
    """Of which click leaves two free; its test runner does not."""
    listing = group.get_help(click.Context(group, terminal_width=78)).partition("Commands:")[2]
    assert "..." not in listing
    assert len(listing.split("\n")[1:]) == len(commands_of(group))


@pytest.mark.parametrize("group", groups(), ids=lambda group: group.name)
def test_every_command_has_a_summary_and_the_help_of_its_group_shows_it(group: click.Group) -> None:
    listing = group.get_help(click.Context(group, terminal_width=200)).partition("Commands:")[2]
    shown = dict(line.strip().split(maxsplit=1) for line in listing.splitlines() if line)
    assert shown == {name: command.get_short_help_str(200) for name, command in commands_of(group).items()}
    assert all(shown.values())


@pytest.mark.parametrize("group", groups(), ids=lambda group: group.name)
def test_a_command_that_does_not_exist_is_named(group: click.Group) -> None:
    result = CliRunner().invoke(group, ["nothing-of-the-kind"])
    assert result.exit_code == 2
    assert "No such command 'nothing-of-the-kind'" in result.stderr


def test_an_interrupted_command_prints_one_word() -> None:
    @click.group(cls=ErrorGroup)
    def group() -> None: ...

    @group.command()
    def work() -> None:
        raise KeyboardInterrupt

    result = CliRunner().invoke(group, ["work"])
    assert (result.exit_code, result.stderr) == (INTERRUPTED, "Stopped.\n")


def test_ctrl_c_during_the_imports_prints_nothing() -> None:
    """The signal comes in the middle of the import of the command line."""
    script = f"""
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "dradriver.cli.main":
            os.kill(os.getpid(), {signal.SIGINT:d})

sys.meta_path.insert(0, Interrupting())
import dradriver.cli
print("imported")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
