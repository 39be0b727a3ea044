"""`dradriver manifests` prints the objects with which to try a driver."""

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from dradriver.cli.manifests.generated import generate_manifests
from dradriver.runner import driver_names

Command = Callable[..., Result]

KINDS = {"DeviceClass", "ResourceClaimTemplate", "Pod"}
DRIVER = """\
import dradriver

class LedDriver(dradriver.Driver):
    name = "led.example.com"
    def discover(self): return []
    def prepare(self, claim): ...
"""


def check(dradriver: Command, text: str) -> None:
    result = dradriver("validate", "-f", "-", stdin=text)
    assert result.exit_code == 0, result.output
    assert "0 error(s), 0 warning(s)" in result.stderr
    objects = list(yaml.safe_load_all(text))
    assert {each["kind"] for each in objects} >= KINDS
    classes = {each["metadata"]["name"] for each in objects if each["kind"] == "DeviceClass"}
    templates = [each for each in objects if each["kind"] == "ResourceClaimTemplate"]
    requested = {
        request["exactly"]["deviceClassName"]
        for each in templates
        for request in each["spec"]["spec"]["devices"]["requests"]
    }
    assert requested <= classes, "the output is complete: pods get their devices without other files"


@pytest.mark.parametrize("driver", ["loop", "gpu-mig", "fpga", "fabric-cxl", "fabric-cxl-pools"])
def test_installed_drivers_have_valid_manifests(dradriver: Command, driver: str) -> None:
    assert driver in driver_names()
    check(dradriver, dradriver("manifests", driver).stdout)


def test_the_objects_of_a_controller_are_printed_on_request(dradriver: Command) -> None:
    text = dradriver("manifests", "fabric-cxl-pools", "--controller").stdout
    assert "kind: ControllerClass" in text
    check(dradriver, text)
    result = dradriver("manifests", "loop", "--controller")
    assert result.exit_code == 1
    assert "has no folder manifests with controller-class.yaml and controller-pod.yaml" in result.stderr


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder from which modules can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_new_project_has_its_own_manifests(
    dradriver: Command, modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dradriver("new", "led", "--directory", str(modules / "led"))
    monkeypatch.syspath_prepend(modules / "led")
    point = EntryPoint("led", "dradriver_led:LedDriver", "dradriver.drivers")
    monkeypatch.setattr("dradriver.runner.catalog._entry_points", lambda: {"led": point})
    text = dradriver("manifests", "led").stdout
    assert "LED_DEVICE" in text
    check(dradriver, text)


@pytest.mark.parametrize("as_package", [False, True])
def test_a_driver_without_manifests_gets_a_class_for_all_its_devices(
    dradriver: Command, modules: Path, as_package: bool
) -> None:
    path = modules / ("plain_led/__init__.py" if as_package else "plain_led.py")
    path.parent.mkdir(exist_ok=True)
    path.write_text(DRIVER)
    if not as_package:  # a folder beside a module belongs to somebody else
        (modules / "manifests").mkdir()
        for name in ("class.yaml", "pod.yaml"):
            (modules / "manifests" / name).write_text("kind: Other\n")
    text = dradriver("manifests", "plain_led:LedDriver").stdout
    check(dradriver, text)
    device_class, template, pod = yaml.safe_load_all(text)
    assert device_class["spec"]["selectors"] == [{"cel": {"expression": 'device.driver == "led.example.com"'}}]
    assert (template["metadata"]["name"], pod["metadata"]["name"]) == ("one-led", "led-1")


def test_other_files_in_the_folder_are_not_printed(dradriver: Command, modules: Path) -> None:
    folder = modules / "led_with_files"
    (folder / "manifests").mkdir(parents=True)
    (folder / "__init__.py").write_text(DRIVER)
    (folder / "manifests/class.yaml").write_text("kind: DeviceClass\n")
    (folder / "manifests/daemonset.yaml").write_text("kind: DaemonSet\n")
    (folder / "manifests/pods.yaml").write_text("kind: Pod\n\n")
    text = dradriver("manifests", "led_with_files:LedDriver").stdout
    assert text == "kind: DeviceClass\n---\nkind: Pod\n"


def test_a_controller_without_manifests_is_an_error(dradriver: Command, modules: Path) -> None:
    (modules / "led_controller.py").write_text(DRIVER.replace("dradriver.Driver", "dradriver.ControllerDriver"))
    result = dradriver("manifests", "led_controller:LedDriver")
    assert result.exit_code == 1
    assert "its package has no folder manifests with class.yaml and pod.yaml" in result.stderr


def test_a_driver_that_is_not_installed_is_an_error(dradriver: Command) -> None:
    result = dradriver("manifests", "lop")
    assert result.exit_code == 1
    assert "driver 'lop' is not installed" in result.stderr


def test_a_driver_name_that_is_no_label_gives_valid_names(dradriver: Command) -> None:
    check(dradriver, generate_manifests("gpu_0.nvidia.com".replace("_", "-")))
    check(dradriver, generate_manifests("0.example.com"))
