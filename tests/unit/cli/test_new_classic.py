"""`dradriver new --classic` writes a project with a controller.

`tests/walkthrough` runs its tests and the other commands of its README.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from tests.unit.cli.test_new import AS_INSTALLED, run

Command = Callable[..., Result]


def project(dradriver: Command, tmp_path: Path) -> Path:
    target = tmp_path / "project"
    result = dradriver("new", "my-led", "--classic", "--directory", str(target))
    assert result.exit_code == 0, result.output
    return target


@pytest.mark.timeout(300)  # mypy without a cache reads all of dradriver
def test_its_code_passes_mypy_strict(dradriver: Command, tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    target = project(dradriver, tmp_path)
    with (target / "pyproject.toml").open("a") as settings:
        settings.write(AS_INSTALLED)
    root = Path(__file__).parents[3]
    cache = str(root / ".mypy_cache/new-classic")
    outcome = run(target, "mypy", "dradriver_my_led", "tests", "--cache-dir", cache, MYPYPATH=str(root))
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_no_placeholder_is_left(dradriver: Command, tmp_path: Path) -> None:
    files = [path for path in project(dradriver, tmp_path).rglob("*") if path.is_file()]
    assert {"controller.py", "manager.py", "driver.py", "py.typed", ".gitignore"} <= {
        path.name for path in files
    }
    assert [path for path in files if re.search(r"@\w+@", path.read_text())] == []


def test_its_manifests_are_valid(dradriver: Command, tmp_path: Path) -> None:
    manifests = project(dradriver, tmp_path) / "manifests"
    result = dradriver("validate", "-f", str(manifests))
    assert result.exit_code == 0, result.output
    (device_class,) = yaml.safe_load_all((manifests / "class.yaml").read_text())
    assert device_class["spec"]["selectors"] == [{"cel": {"expression": "false"}}]


def test_both_processes_run_by_their_names(dradriver: Command, tmp_path: Path) -> None:
    text = (project(dradriver, tmp_path) / "pyproject.toml").read_text()
    assert 'my-led = "dradriver_my_led:MyLedDriver"' in text
    assert 'my-led-controller = "dradriver_my_led:MyLedController"' in text


def test_its_values_enable_all_parts_and_its_image_can_schedule(dradriver: Command, tmp_path: Path) -> None:
    target = project(dradriver, tmp_path)
    values = yaml.safe_load((target / "values.yaml").read_text())
    assert values["drivers"].keys() == {"my-led", "my-led-controller"}
    assert values["classic"]["enabled"]
    assert values["scheduler"]["enabled"]
    assert ". 'dradriver[scheduler]'" in (target / "Containerfile").read_text()
