"""`dradriver new` writes a project that is complete.

`tests/walkthrough` runs its tests and the other commands of its README.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

Command = Callable[..., Result]


def project(dradriver: Command, tmp_path: Path, name: str = "my-led") -> Path:
    target = tmp_path / "project"
    result = dradriver("new", name, "--directory", str(target))
    assert result.exit_code == 0, result.output
    return target


def run(target: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(target), **variables}
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=target,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


# An installed dradriver is not checked either. The kubernetes package takes longer than everything else.
AS_INSTALLED = """
[[tool.mypy.overrides]]
module = ["dradriver.*"]
ignore_errors = true

[[tool.mypy.overrides]]
module = ["kubernetes.*"]
follow_imports = "skip"
"""


@pytest.mark.timeout(300)  # mypy without a cache reads all of dradriver
def test_its_code_passes_mypy_strict(dradriver: Command, tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    target = project(dradriver, tmp_path)
    with (target / "pyproject.toml").open("a") as settings:
        settings.write(AS_INSTALLED)
    root = Path(__file__).parents[3]
    cache = str(root / ".mypy_cache/new")
    outcome = run(target, "mypy", "dradriver_my_led", "tests", "--cache-dir", cache, MYPYPATH=str(root))
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_no_placeholder_is_left(dradriver: Command, tmp_path: Path) -> None:
    files = [path for path in project(dradriver, tmp_path).rglob("*") if path.is_file()]
    names = {
        "pyproject.toml",
        "README.md",
        ".gitignore",
        ".containerignore",
        "Containerfile",
        "values.yaml",
        "ci.yml",
        "driver.py",
        "test_driver.py",
        "class.yaml",
        "py.typed",
    }
    assert names <= {path.name for path in files}
    assert [path for path in files if re.search(r"@\w+@", path.read_text())] == []


def test_its_manifests_are_valid(dradriver: Command, tmp_path: Path) -> None:
    manifests = project(dradriver, tmp_path) / "manifests"
    result = dradriver("validate", "-f", str(manifests))
    assert result.exit_code == 0, result.output
    (device_class,) = yaml.safe_load_all((manifests / "class.yaml").read_text())
    assert device_class["metadata"]["name"] == "my-led.example.com"


def test_it_runs_by_its_name(dradriver: Command, tmp_path: Path) -> None:
    text = (project(dradriver, tmp_path) / "pyproject.toml").read_text()
    assert '[project.entry-points."dradriver.drivers"]\nmy-led = "dradriver_my_led:MyLedDriver"' in text


@pytest.mark.parametrize("name", ["Led", "4leds", "led_1", "l" * 60])
def test_an_invalid_name_is_reported(dradriver: Command, tmp_path: Path, name: str) -> None:
    result = dradriver("new", name, "--directory", str(tmp_path / "project"))
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: NAME: ")
    assert not (tmp_path / "project").exists()


def test_a_folder_that_is_not_empty_is_not_changed(dradriver: Command, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    result = dradriver("new", "led", "--directory", str(tmp_path))
    assert result.exit_code == 1
    assert "choose another one with --directory" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_its_image_installs_the_project_and_starts_as_an_unprivileged_user(
    dradriver: Command, tmp_path: Path
) -> None:
    lines = (project(dradriver, tmp_path) / "Containerfile").read_text().replace("\\\n", " ").splitlines()
    (build,) = [line for line in lines if line.startswith("RUN ")]
    assert "pip install --no-cache-dir --compile --find-links wheels . " in build
    assert [line for line in lines if line.startswith("USER ")] == ["USER 65532:65532"]
    assert [line for line in lines if line.startswith("ENTRYPOINT ")] == ['ENTRYPOINT ["dradriver"]']


def test_its_workflow_runs_the_tests_and_builds_the_image(dradriver: Command, tmp_path: Path) -> None:
    text = (project(dradriver, tmp_path) / ".github/workflows/ci.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    commands = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert "python -m pytest" in commands["test"]
    assert "podman build -t dradriver-my-led ." in commands["image"]


def test_its_values_name_its_entry_point_its_driver_and_its_image(dradriver: Command, tmp_path: Path) -> None:
    target = project(dradriver, tmp_path)
    values = yaml.safe_load((target / "values.yaml").read_text())
    schema = json.loads((Path(__file__).parents[3] / "packaging/chart/values.schema.json").read_text())
    assert values.keys() <= schema["properties"].keys()
    (key,) = values["drivers"]
    assert f'{key} = "dradriver_my_led:MyLedDriver"' in (target / "pyproject.toml").read_text()
    assert values["drivers"][key]["driverName"] == "my-led.example.com"
    readme = (target / "README.md").read_text()
    assert f"podman push {values['image']['repository']}:{values['image']['tag']}\n" in readme
