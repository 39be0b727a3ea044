"""`dradriver up logs` prints the logs of drivers from the data folder."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from dradriver.cli.up.logs import LogReader

Command = Callable[..., Result]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "lock").touch()
    for node in ("node-1", "node-2"):
        folder = tmp_path / "nodes" / node
        folder.mkdir(parents=True)
        (folder / "fpga.log").write_text(f"first of {node}\nlast of {node}\n")
    (tmp_path / "nodes/node-1/loop.log").write_text("one\ntwo\nthree\nwithout end")
    (tmp_path / "pools.log").write_text("elected\n")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (("loop",), ["one", "two", "three", "without end"]),
        (("loop", "--tail", "2"), ["three", "without end"]),
        (("loop", "--tail", "0"), []),
        (("fpga", "--node", "node-2"), ["first of node-2", "last of node-2"]),
        (("fpga", "--tail", "1"), ["node-1: last of node-1", "node-2: last of node-2"]),
        (("pools",), ["elected"]),
    ],
)
def test_the_log_of_a_driver_is_printed(
    dradriver: Command, data: Path, arguments: tuple[str, ...], lines: list[str]
) -> None:
    assert dradriver("up", "logs", "--data", str(data), *arguments).stdout.splitlines() == lines


def test_the_folder_may_be_given_before_the_command(dradriver: Command, data: Path) -> None:
    assert dradriver("up", "--data", str(data), "logs", "pools").stdout == "elected\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lop",), "driver lop has no log on the cluster in {data} (drivers with logs: fpga, loop, pools)"),
        (
            ("loop", "--node", "node-2"),
            "driver loop has no log on node node-2 of the cluster in {data} (drivers with logs: fpga)",
        ),
        (("loop", "--data", "nowhere"), "no cluster in nowhere: start `dradriver up`, or give its folder"),
    ],
)
def test_a_missing_log_is_reported_with_the_logs_that_exist(
    dradriver: Command, data: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = dradriver("up", "--data", str(data), "logs", *arguments)
    assert result.exit_code == 1
    assert message.format(data=data) in result.stderr


def test_follow_prints_complete_lines_as_they_come_until_ctrl_c(
    dradriver: Command, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = data / "nodes/node-1/loop.log"
    added = [" now\nfour\nfi", "ve\n"]

    def sleep(_seconds: float) -> None:
        if not added:
            raise KeyboardInterrupt
        with log.open("a") as file:
            file.write(added.pop(0))

    monkeypatch.setattr("dradriver.cli.up.logs.time.sleep", sleep)
    result = dradriver("up", "logs", "loop", "-f", "--tail", "1", "--data", str(data))
    assert result.stdout.splitlines() == ["three", "without end now", "four", "five"]
    assert result.exit_code == 130


def test_a_log_that_was_replaced_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "loop.log"
    reader = LogReader(log)
    assert reader.read() == []
    log.write_text("before\n")
    assert reader.read() == ["before"]
    (tmp_path / "new").write_text("after --fresh\n")
    (tmp_path / "new").rename(log)
    assert reader.read() == ["after --fresh"]
    log.write_text("short\n")
    assert reader.read() == ["short"]
