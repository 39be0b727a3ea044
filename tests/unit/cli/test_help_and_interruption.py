"""What the command line says of itself, and how calmly it ends."""

import signal
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from dradriver.cli.main import main as root
from dradriver.cli.terminal.errors import INTERRUPTED, ErrorGroup


def commands() -> list[click.Command]:
    assert isinstance(root, click.Group)
    context = click.Context(root)
    found = [root.get_command(context, name) for name in root.list_commands(context)]
    return [each for each in found if each is not None]


def groups() -> list[click.Group]:
    assert isinstance(root, click.Group)
    return [root, *(each for each in commands() if isinstance(each, click.Group))]


@pytest.mark.parametrize("group", groups(), ids=lambda group: group.name)
def test_no_summary_is_cut_off_on_80_columns(group: click.Group) -> None:
    """Of which click leaves two free; its test runner does not."""
    told = group.get_help(click.Context(group, terminal_width=78))
    assert "..." not in told.partition("Commands:")[2]


def test_every_command_has_a_summary() -> None:
    assert len(commands()) == 12
    assert all(command.get_short_help_str() for command in commands())


def test_an_interrupted_command_says_one_calm_word() -> None:
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
