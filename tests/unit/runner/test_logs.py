"""Log lines of a prepare have the call, the claim and its pods, including those of the driver's methods."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from dradriver.driver import Claim
from dradriver.model.cdi import ContainerEdits
from dradriver.node.reporting.log_context import log_fields
from dradriver.runner import logs
from dradriver.runner.logs import TextFormatter
from tests.unit.node.plugin_world import Node, prepare
from tests.unit.node.world import DRIVER, LampDriver, allocated

StartLog: TypeAlias = Callable[[str], io.StringIO]
own = logging.getLogger("dradriver.a_driver")


class Talking(LampDriver):
    """A driver whose plain method logs in its thread."""

    def prepare(self, claim: Claim) -> Any:
        own.info("lighting %d lamps", len(claim.devices))
        return dict.fromkeys(claim.devices, ContainerEdits(env={"LAMP": "on"}))


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[StartLog]:
    """Yield a function that starts the log of a process; restore the log of the tests at the end."""
    root, sdk = logging.getLogger(), logging.getLogger("dradriver")
    before = root.handlers[:], root.level, sdk.level

    def begin(form: str) -> io.StringIO:
        stream = io.StringIO()
        monkeypatch.setattr("sys.stderr", stream)
        logs.start_log(form, "info")
        logs.set_log_context({"driver": DRIVER}, log_fields)
        return stream

    yield begin
    logs.set_log_context({}, dict)
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    sdk.setLevel(before[2])


async def test_json_lines_have_the_context_as_fields(start: StartLog, tmp_path: Path) -> None:
    stream, node = start("json"), Node(tmp_path)
    async with node.running(Talking(node.hardware)) as plugin:
        claim = node.api.add(allocated("claim", "lamp-0"))
        await prepare(plugin, claim)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    (logged,) = (line for line in lines if line["logger"] == own.name)
    (outcome,) = (line for line in lines if line.get("operation"))
    (pod,) = claim.status.reserved_for
    for line in (logged, outcome):
        assert line["driver"] == DRIVER
        assert line["request_id"] == "prepare-1"
        assert (line["claim_namespace"], line["claim_name"]) == ("default", "claim")
        assert line["claim_uid"] == claim.metadata.uid
        assert (line["pods"], line["pod_uids"]) == ([pod.name], [pod.uid])
    assert (outcome["operation"], outcome["result"]) == ("prepare", "ok")
    assert outcome["seconds"] >= 0
    assert (outcome["level"], logged["message"]) == ("info", "lighting 1 lamps")


async def test_text_lines_end_with_the_context(start: StartLog, tmp_path: Path) -> None:
    stream, node = start("text"), Node(tmp_path)
    async with node.running(Talking(node.hardware)) as plugin:
        claim = node.api.add(allocated("claim", "lamp-0"))
        await prepare(plugin, claim)
    (logged,) = (line for line in stream.getvalue().splitlines() if "lighting 1 lamps" in line)
    assert (
        f"[request_id=prepare-1 claim_namespace=default claim_name=claim claim_uid={claim.metadata.uid}"
        in logged
    )


async def test_claims_of_one_call_do_not_mix(start: StartLog, tmp_path: Path) -> None:
    stream, node = start("json"), Node(tmp_path)
    async with node.running(Talking(node.hardware)) as plugin:
        claims = [node.api.add(allocated(f"claim-{n}", f"lamp-{n}")) for n in range(3)]
        await prepare(plugin, *claims)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    outcomes = [line for line in lines if line.get("operation")]
    assert {line["claim_name"] for line in outcomes} == {claim.metadata.name for claim in claims}
    assert all(line["claim_uid"] in line["message"] for line in outcomes)
    assert {line["request_id"] for line in outcomes} == {"prepare-1"}


def test_line_breaks_in_a_message_are_escaped() -> None:
    record = logging.makeLogRecord({"name": "x", "levelname": "INFO", "msg": "a\nINFO forged\x1b[2J"})
    line = TextFormatter().format(record)
    assert line.endswith(r"a\nINFO forged\x1b[2J")
    assert len(line.splitlines()) == 1
