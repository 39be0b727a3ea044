"""The workflows of hosted CI, checked by actionlint."""

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.bed import programs

WORKFLOWS: Final = sorted((Path(__file__).parents[2] / ".github" / "workflows").glob("*.yml"))
pytestmark = pytest.mark.timeout(600)


@pytest.mark.skipif(bool(programs.missing("actionlint")), reason=programs.missing("actionlint") or "-")
def test_actionlint_finds_no_mistake() -> None:
    command = [str(programs.program("actionlint")), "-shellcheck=", "-pyflakes=", *map(str, WORKFLOWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    """A tag can be moved. The authors of `pypa/gh-action-pypi-publish` ask for their branch of releases."""
    used = re.findall(r"uses: (\S+?)@(\S+)(?: # (\S+))?$", path.read_text(), re.MULTILINE)
    assert used
    for name, revision, version in used:
        if name != "pypa/gh-action-pypi-publish":
            assert re.fullmatch("[0-9a-f]{40}", revision), name
            assert re.fullmatch(r"v\d+\.\d+\.\d+", version), name
