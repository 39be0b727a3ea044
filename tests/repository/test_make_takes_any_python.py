"""`make` uses the requested Python, in any folder; `.ci/pythons` finds the Pythons of a machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def output(*command: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    # A make that runs these tests passes on its variables.
    usual = {name: value for name, value in os.environ.items() if name not in {"PYTHON", "VENV", "MAKEFLAGS"}}
    ended = subprocess.run(
        command,
        cwd=cwd,
        env={**usual, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def python(path: Path, version: str) -> Path:
    """Write a program that reports this version of Python."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{version}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Create a checkout behind a symbolic link, with a space in its path; its environment is of 3.11."""
    there = tmp_path / "a checkout"
    projects = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("*/*/pyproject.toml"))
    for name in ("Makefile", "packaging/venv.sh", "pyproject.toml", "constraints.txt", *projects):
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, there / name)
    python(there / ".venv/bin/python", "3.11")
    for stamp in (".installed", ".developer"):
        (there / ".venv" / stamp).touch()
    link = tmp_path / "a link"
    link.symlink_to(there)
    return link


def would_recreate(checkout: Path, *arguments: str, **variables: str) -> bool:
    """Return whether make would create the virtual environment again."""
    return "venv.sh" in output("make", "-n", ".venv/.developer", *arguments, cwd=checkout, **variables)


def test_the_environment_has_the_requested_python(checkout: Path) -> None:
    older, newer = (python(checkout / f"other python/{version}", version) for version in ("3.11", "3.12"))
    assert not would_recreate(checkout)
    assert not would_recreate(checkout, f"PYTHON={older}")
    assert would_recreate(checkout, f"PYTHON={newer}")
    assert would_recreate(checkout, PYTHON=str(newer))


def test_the_tests_run_on_the_oldest_and_the_newest_python(tmp_path: Path) -> None:
    source = "sys.version_info = type('V', (tuple,), {'releaselevel': 'final'})"
    for minor in (9, 10, 11, 100):
        program = tmp_path / f"bin/python3.{minor}"
        program.parent.mkdir(exist_ok=True)
        begin = f"import sys; {source}((3, {minor}, 0)); sys.executable = '{program}'; exec(sys.argv[2])"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{begin}" "$@"\n')
        program.chmod(0o755)
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    found = output("sh", ".ci/pythons", PATH=path, PYENV_ROOT=str(tmp_path)).splitlines()
    ours = [line for line in found if line.startswith(str(tmp_path))]
    assert ours == [f"{tmp_path}/bin/python3.11", f"{tmp_path}/bin/python3.100"]
    assert found[-1] == ours[-1]


def test_a_program_can_be_hidden_from_the_tests(tmp_path: Path) -> None:
    for program in ("podman", "other"):
        python(tmp_path / "some programs" / program, program)
    path = f"{tmp_path}/some programs:{os.environ['PATH']}"
    script = "command -v podman || echo none; other; printf '<%s>' \"$@\""
    seen = output("sh", ".ci/without", "podman", "sh", "-c", script, "sh", "a b", "c", PATH=path)
    assert seen == "none\nother\n<a b><c>"
