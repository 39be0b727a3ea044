"""A driver that cannot be started fails with one line; an error of the user shows no traceback."""

import json
import logging
from collections.abc import Mapping
from importlib.metadata import EntryPoint

import pytest

import dradriver as dra
from dradriver.errors import DriverError, NotFoundError
from dradriver.runner import catalog, driver_names, launch, load_driver
from dradriver.runner.logs import JsonFormatter


class Valid(dra.Driver):
    name = "fine.example.com"

    def discover(self) -> list[dra.Device]:
        return []

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        return {}


class Broken(Valid):
    def __init__(self) -> None:
        raise OSError("no such card")


class Incomplete(dra.Driver):
    name = "fine.example.com"


class Misnamed(Valid):
    name = "Valid Driver"


@pytest.mark.parametrize(
    ("driver", "given", "code", "line"),
    [
        (Broken, {}, 1, "Error: Broken() raised OSError('no such card')"),
        (Incomplete, {}, 1, "Error: Incomplete: does not implement discover(), prepare()"),
        (Misnamed, {}, 1, "Error: Misnamed.name: 'Valid Driver' is not a DNS subdomain"),
        (Valid, {"metrics_port": "x"}, 2, "Error: --metrics-port: 'x' must be a number"),
        (Valid, {"kubeconfig": "/no/such/file"}, 1, "Error: "),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    driver: type[dra.Driver], given: dict[str, str], code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launch(driver, {"node_name": "node-1"} | given) == code
    output = capsys.readouterr().err.splitlines()
    assert [text for text in output if text.startswith("Error: ")] == output
    assert output[0].startswith(line)


def test_the_authors_traceback_is_logged_at_debug(capsys: pytest.CaptureFixture[str]) -> None:
    launch(Broken, {"node_name": "node-1", "log_level": "debug"})
    output = capsys.readouterr().err
    assert "Traceback" in output
    assert "in __init__" in output


def test_a_driver_without_a_name_fails() -> None:
    class Nameless(Valid):
        name = None  # type: ignore[assignment]

    assert launch(Nameless, {"node_name": "node-1"}) == 1


def test_the_example_is_found_by_its_entry_point() -> None:
    assert "loop" in driver_names()
    assert load_driver("loop").name == "loop.example.com"


def test_an_unknown_driver_lists_the_known_ones() -> None:
    with pytest.raises(NotFoundError, match=r"driver 'lop' is not installed \(installed: .*loop"):
        load_driver("lop")


@pytest.mark.parametrize(
    ("target", "message"),
    [("no_such_module:Driver", "cannot be imported"), ("json:dumps", "must be a subclass of dradriver.Driver")],
)
def test_an_invalid_entry_point_is_an_error(monkeypatch: pytest.MonkeyPatch, target: str, message: str) -> None:
    point = EntryPoint("odd", target, catalog.GROUP)
    monkeypatch.setattr(catalog, "_entry_points", lambda: {"odd": point})
    with pytest.raises(DriverError, match=message):
        load_driver("odd")


def test_a_json_log_line_is_one_object_with_extra_fields() -> None:
    record = logging.makeLogRecord(
        {"name": "dradriver", "levelno": 20, "levelname": "INFO", "msg": "hello\nworld"}
    )
    record.claim = "default/claim-1"
    line = JsonFormatter().format(record)
    assert "\n" not in line
    fields = json.loads(line)
    assert (fields["message"], fields["level"], fields["claim"]) == ("hello\nworld", "info", "default/claim-1")
