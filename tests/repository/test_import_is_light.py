"""`import dradriver` and the pytest plugin load no large module, so that drivers and test runs start fast."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dradriver

HEAVY = {
    "aiohttp",
    "click",
    "cryptography",
    "google",
    "grpc",
    "kubernetes",
    "prometheus_client",
    "rich",
    "yaml",
}


def loaded(statement: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has after a statement."""
    code = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(outcome.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import dradriver",
        "import dradriver.testing",
        "import dradriver.testing.plugin",
        "import dradriver_loop",
    ],
)
def test_nothing_heavy_is_loaded_by(statement: str) -> None:
    # pytest and its own imports are loaded before the plugin.
    base = loaded("import pytest, pytest_asyncio") if "plugin" in statement else set()
    assert (loaded(statement) - base) & HEAVY == set()


def test_the_command_line_loads_only_click() -> None:
    """So that `dradriver --version` and `--help` answer at once."""
    called = (
        "from click.testing import CliRunner; from dradriver.cli import main; CliRunner().invoke(main, [{}])"
    )
    for arguments in ("'--version'", "'--help'", ""):
        assert (HEAVY | {"msgspec", "uvloop"}) & loaded(called.format(arguments)) == {"click"}


def test_no_command_is_imported_before_it_is_called() -> None:
    code = "import sys, dradriver.cli; print(*(each for each in sys.modules if each.startswith('dradriver.')))"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(outcome.stdout.split()) == {
        "dradriver.cli",
        "dradriver.cli.habits",
        "dradriver.cli.habits.arguments",
        "dradriver.cli.habits.hints",
        "dradriver.cli.lazy_group",
        "dradriver.cli.main",
        "dradriver.cli.terminal",
        "dradriver.cli.terminal.errors",
        "dradriver.errors",
        "dradriver.extras",
        "dradriver.version",
    }


def test_a_public_name_is_imported_from_where_type_checkers_see_it() -> None:
    tree = ast.parse(Path(dradriver.__file__).read_text())
    [block] = [each for each in tree.body if isinstance(each, ast.If)]
    seen = {
        alias.name: each.module
        for each in block.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }
    assert seen == dradriver._MODULES
    assert sorted(seen) == sorted(dradriver.__all__)
    assert set(dradriver.__all__) <= set(dir(dradriver))
