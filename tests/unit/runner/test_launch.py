"""A driver that can't be started says why in one line; what is a user's mistake shows no traceback."""

import json
import logging
from collections.abc import Mapping
from importlib.metadata import EntryPoint

import pytest

import dradriver as dra
from dradriver.errors import DriverError, NotFoundError
from dradriver.runner import catalog, driver_names, launch, load_driver
from dradriver.runner.logs import JsonFormatter


class Fine(dra.Driver):
    name = "fine.example.com"

    def discover(self) -> list[dra.Device]:
        return []

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        return {}


class Broken(Fine):
    def __init__(self) -> None:
        raise OSError("no such card")


class Halved(dra.Driver):
    name = "fine.example.com"


class Misnamed(Fine):
    name = "Fine Driver"


@pytest.mark.parametrize(
    ("driver", "given", "code", "line"),
    [
        (Broken, {}, 1, "Error: Broken() raised OSError('no such card')"),
        (Halved, {}, 1, "Error: Halved lacks discover(), prepare(), which such a driver has to have"),
        (Misnamed, {}, 1, "Error: Misnamed.name: 'Fine Driver' is not a DNS subdomain"),
        (Fine, {"metrics_port": "x"}, 2, "Error: --metrics-port: 'x' is not a port number"),
        (Fine, {"kubeconfig": "/no/such/file"}, 1, "Error: "),
    ],
)
def test_what_is_wrong_is_one_line_and_an_exit_code(
    driver: type[dra.Driver], given: dict[str, str], code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launch(driver, {"node_name": "node-1"} | given) == code
    said = capsys.readouterr().err.splitlines()
    assert [text for text in said if text.startswith("Error: ")] == said
    assert said[0].startswith(line)


def test_at_level_debug_the_authors_traceback_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    launch(Broken, {"node_name": "node-1", "log_level": "debug"})
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "in __init__" in said


def test_a_driver_without_a_name_is_told_to_take_one() -> None:
    class Nameless(Fine):
        name = None  # type: ignore[assignment]

    assert launch(Nameless, {"node_name": "node-1"}) == 1


def test_the_example_is_found_by_its_entry_point() -> None:
    assert "loop" in driver_names()
    assert load_driver("loop").name == "loop.example.com"


def test_an_unknown_driver_lists_the_known_ones() -> None:
    with pytest.raises(NotFoundError, match=r"no driver 'lop' is installed \(installed: .*loop"):
        load_driver("lop")


@pytest.mark.parametrize(
    ("target", "words"),
    [("no_such_module:Driver", "can't be imported"), ("json:dumps", "is not a subclass of dradriver.Driver")],
)
def test_an_entry_point_that_is_no_driver_is_said(
    monkeypatch: pytest.MonkeyPatch, target: str, words: str
) -> None:
    point = EntryPoint("odd", target, catalog.GROUP)
    monkeypatch.setattr(catalog, "_entry_points", lambda: {"odd": point})
    with pytest.raises(DriverError, match=words):
        load_driver("odd")


def test_a_line_of_the_json_log_is_one_object_with_what_came_along() -> None:
    record = logging.makeLogRecord(
        {"name": "dradriver", "levelno": 20, "levelname": "INFO", "msg": "hello\nworld"}
    )
    record.claim = "default/claim-1"
    line = JsonFormatter().format(record)
    assert "\n" not in line
    fields = json.loads(line)
    assert (fields["message"], fields["level"], fields["claim"]) == ("hello\nworld", "info", "default/claim-1")
