"""The Containerfile against the tree that it copies from, and the wheel that it installs."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]
CONTAINERFILE: Final = (ROOT / "packaging" / "Containerfile").read_text()
LINES: Final = re.sub(r"\\\n", " ", CONTAINERFILE).splitlines()


def copied() -> list[str]:
    """Paths of the tree that the build stage copies."""
    lines = [line.split() for line in LINES if line.startswith("COPY ") and "--from" not in line]
    return [source for words in lines for source in words[1:-1]]


def test_all_that_is_copied_is_there_and_not_ignored() -> None:
    ignored = [
        line for line in (ROOT / ".containerignore").read_text().splitlines() if line[:1] not in {"", "#"}
    ]
    assert ignored[0] == "*"
    taken_back = {line[1:] for line in ignored if line.startswith("!")}
    assert set(copied()) == taken_back
    assert all((ROOT / path).exists() for path in copied())


def test_the_wheel_needs_nothing_else_of_the_tree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    needed = {*packages, "pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    assert needed | {"constraints.txt"} == set(copied())


def test_it_does_not_run_as_root_and_needs_no_shell() -> None:
    final = LINES[max(index for index, line in enumerate(LINES) if line.startswith("FROM ")) :]
    assert [line for line in final if line.startswith("USER ")] == ["USER 65532:65532"]
    assert [line for line in final if line.startswith("ENTRYPOINT ")] == ['ENTRYPOINT ["dradriver"]']
    assert not [line for line in final if line.startswith("RUN ")]


def test_image_chart_and_project_are_of_one_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((ROOT / "packaging" / "chart" / "Chart.yaml").read_text())
    assert f"ARG VERSION={version}" in LINES
    assert chart["appVersion"] == version


def test_every_dependency_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {re.split("[>=]", each)[0].strip() for each in project["dependencies"]} <= pinned


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_the_wheel_has_the_command_and_its_drivers(tmp_path: Path) -> None:
    """What the build stage does, without a container; the build backend comes from the package index."""
    source, installed = tmp_path / "source", tmp_path / "installed"
    for path in copied():
        target = source / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / path).is_dir():
            shutil.copytree(ROOT / path, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / path, target)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    built = subprocess.run((*pip, "wheel", "--no-deps", f"--wheel-dir={tmp_path}", source), check=False)
    if built.returncode:
        pytest.skip("the build backend (hatchling) can't be had: no package index")
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run((*pip, "install", "--no-deps", "--no-index", f"--target={installed}", wheel), check=True)
    command = (sys.executable, installed / "bin" / "dradriver", "run", "--help")
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "loop" in done.stdout.rpartition("Installed drivers:")[2]
