"""Users' configuration and drivers' answers are in no log line at any level, no Event, no metric, no answer."""

import base64
import io
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest

from dradriver.driver import AllocatedDevice, Claim, Config, PreparedDevice
from dradriver.errors import DraError
from dradriver.kube.errors import Invalid
from dradriver.model.cdi import ContainerEdits, Hook
from dradriver.node.reporting.log_context import log_fields
from dradriver.node.reporting.redaction import HIDDEN, format_origin, redact_error, redact_text
from dradriver.node.state.records import ClaimRecord, RecordedAnswer, RecordedDevice
from dradriver.runner import logs
from dradriver.wire import dra_v1
from dradriver.wire.stubs import dra_v1_grpc
from tests.unit.node.controlled import HandleDriver, controlled
from tests.unit.node.plugin_world import Node, dial, notify, prepare, request
from tests.unit.node.world import LampDriver, allocated

CANARY = "c4n4ry-t0ken"


class StrictConfig(Config):
    """Its decoder and its rule quote their input."""

    api_version = "lamp.example.com/v1"
    kind = "StrictConfig"
    mode: Literal["dim", "bright"] = "dim"
    token: str = ""

    def __post_init__(self) -> None:
        if self.token == CANARY:
            raise ValueError(f"the token {self.token!r} is worn out")


def parameters(**fields: object) -> bytes:
    return json.dumps({"apiVersion": "lamp.example.com/v1", "kind": "StrictConfig", **fields}).encode()


def lamp(**fields: object) -> bytes:
    return json.dumps({"apiVersion": "lamp.example.com/v1", "kind": "LampConfig", **fields}).encode()


def raising(error: Exception) -> Callable[[AllocatedDevice], PreparedDevice | ContainerEdits]:
    def answer(device: AllocatedDevice) -> PreparedDevice:
        raise error from KeyError(CANARY)

    return answer


def answering(answer: object) -> Callable[[AllocatedDevice], Any]:
    return lambda _: answer


class Told(LampDriver):
    configs = (*LampDriver.configs, StrictConfig)  # type: ignore[assignment]

    async def unprepare(self, claim: Claim) -> None:
        if CANARY in str(claim.devices[0].configs):
            raise OSError(f"busy with {CANARY}")
        await super().unprepare(claim)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture(params=["text", "json"])
def log(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """The log of a process at level debug."""
    root, own = logging.getLogger(), logging.getLogger("dradriver")
    before = root.handlers[:], root.level, own.level
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    logs.start_log(request.param, "debug")
    logs.set_log_context({"driver": "lamp.example.com"}, log_fields)
    yield stream
    logs.set_log_context({}, dict)
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    own.setLevel(before[2])


SECRETS: Mapping[str, tuple[bytes, Callable[[AllocatedDevice], Any] | None]] = {
    "a wrong value of an enumeration": (parameters(mode=CANARY), None),
    "a rule of the author's": (parameters(token=CANARY), None),
    "a wrong type": (lamp(color=[CANARY]), None),
    "an unknown field": (lamp(colour=CANARY), None),
    "no JSON object of a known kind": (lamp(kind="Other", token=CANARY), None),
    "an exception of the driver": (lamp(color=CANARY), raising(OSError(f"color {CANARY!r} is out"))),
    "an error of the driver's own": (lamp(color=CANARY), raising(DraError(f"no {CANARY} here"))),
    "a value in an environment": (lamp(), answering(ContainerEdits(env=[CANARY]))),
    "an environment of no text": (lamp(), answering(ContainerEdits(env=[CANARY, 1]))),  # type: ignore[list-item]
    "an argument of a hook": (
        lamp(),
        answering(ContainerEdits(hooks=[Hook("no such hook", "relative", args=[CANARY], env=[f"A={CANARY}"])])),
    ),
    "metadata": (lamp(), answering(PreparedDevice(metadata={"token": CANARY * 9}))),
    "metadata of a wrong type": (lamp(), answering(PreparedDevice(metadata={"token": [CANARY]}))),
    "data": (lamp(), answering(PreparedDevice(data={"token": CANARY, "odd": {CANARY}}))),
    "all is well": (lamp(color=CANARY), answering(ContainerEdits(env={"TOKEN": CANARY}))),
}


@pytest.mark.parametrize("case", SECRETS)
async def test_a_secret_in(case: str, node: Node, log: io.StringIO) -> None:
    config, answer = SECRETS[case]
    driver = Told(node.hardware)
    driver.answer = answer or driver.answer
    node.api.patch_failures = [Invalid(f"data {CANARY} is odd"), Invalid(f"data {CANARY} is odd")]
    async with node.running(driver) as plugin:
        await notify(plugin)
        await plugin.parts.claims.state_complete.wait()
        claim = node.api.add(allocated("claim", "lamp-0", parameters=config))
        answers = [str((await prepare(plugin, claim))[claim.metadata.uid].error) for _ in range(2)]
        async with dial(plugin.sockets.service) as channel:
            unprepared = await dra_v1_grpc.DRAPluginStub(channel).NodeUnprepareResources(
                dra_v1.NodeUnprepareResourcesRequest(claims=request(claim).claims)
            )
        answers.append(unprepared.claims[claim.metadata.uid].error)
        metrics = generate_latest(plugin.metrics.registry).decode()
    texts = [log.getvalue(), json.dumps(node.api.events), metrics, *answers]
    assert "request_id" in texts[0]
    assert [text for text in texts if CANARY in text] == []


async def test_the_message_still_names_field_and_rule(node: Node) -> None:
    async with node.running(Told(node.hardware)) as plugin:
        await plugin.parts.claims.state_complete.wait()
        wrong = node.api.add(allocated("wrong", "lamp-0", parameters=parameters(mode=CANARY)))
        broken = node.api.add(allocated("broken", "lamp-1", parameters=parameters(token=CANARY)))
        answers = await prepare(plugin, wrong, broken)
    assert f"mode: Invalid enum value '{HIDDEN}'" in answers[wrong.metadata.uid].error
    assert f"the token '{HIDDEN}' is worn out" in answers[broken.metadata.uid].error


def record(text: str) -> ClaimRecord:
    device = RecordedDevice(
        request="led", pool="node-1", device="lamp-0", parameters=[lamp(color=text).decode()]
    )
    return ClaimRecord(uid="u", namespace="default", name="claim", devices=[device])


@given(st.text(min_size=4).filter(lambda text: len(text.strip()) >= 4), st.text(), st.text())
def test_a_secret_is_hidden_in_every_quoted_form(secret: str, before: str, after: str) -> None:
    """Nothing of four or more characters remains, between other characters or quoted by Python or JSON."""
    known = record(secret)
    for quoted in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]):
        texts = redact_text(f"{before}|{quoted}|{after}", known)
        if secret not in before + after and secret not in HIDDEN and not set(secret) & set("|(hidden)"):
            assert f"|{quoted}|" not in texts


@pytest.mark.parametrize(
    "handle", [CANARY.encode(), json.dumps({"key": [CANARY]}).encode(), f"url={CANARY}".encode()]
)
@pytest.mark.parametrize("quote", [repr, str, bytes.hex, lambda data: base64.b64encode(data).decode()])
def test_the_data_of_a_handle_is_hidden_in_every_form(handle: bytes, quote: Callable[[bytes], str]) -> None:
    known = ClaimRecord(uid="u", handles=[handle])
    assert quote(handle) not in redact_text(f"cannot use {quote(handle)}", known)
    assert redact_text(f"cannot use {handle.decode()}", known) == f"cannot use {HIDDEN}"
    assert CANARY not in redact_text(f"cannot use {CANARY}", known)


def test_binary_data_of_a_handle_is_hidden() -> None:
    handle = bytes(range(120, 250))
    message = f"cannot use {handle!r}, which is {handle.hex()}"
    assert redact_text(message, ClaimRecord(uid="u", handles=[handle])) == (
        f"cannot use b'{HIDDEN}', which is {HIDDEN}"
    )


async def test_a_handle_is_in_no_log_line_and_no_answer(node: Node, log: io.StringIO) -> None:
    driver = HandleDriver(node.hardware)
    driver.failure = OSError(f"the fabric refuses {CANARY!r}")
    async with node.running(driver) as plugin:
        await notify(plugin)
        await plugin.parts.claims.state_complete.wait()
        claim = node.api.add(controlled("claim", "lamp-0", handle=json.dumps({"token": CANARY}).encode()))
        answer = (await prepare(plugin, claim))[claim.metadata.uid].error
        driver.failure = None
        assert not (await prepare(plugin, claim))[claim.metadata.uid].error
    assert f"the fabric refuses '{HIDDEN}'" in answer
    assert [text for text in (log.getvalue(), json.dumps(node.api.events)) if CANARY in text] == []


def test_names_are_shown() -> None:
    device = RecordedDevice(request="led", pool="node-1", device="lamp-0", parameters=['{"color":"lamp-0"}'])
    known = ClaimRecord(uid="u", namespace="default", name="claim", devices=[device])
    assert redact_text("device node-1/lamp-0 is gone", known) == "device node-1/lamp-0 is gone"


def test_each_line_of_a_key_is_hidden() -> None:
    assert redact_text("can't use MIIB1234", record("-----BEGIN\nMIIB1234\n-----END")) == f"can't use {HIDDEN}"


def test_recorded_answers_are_hidden() -> None:
    answers = [RecordedAnswer(edits=ContainerEdits(env=["TOKEN=s3cret"]))]
    error = redact_error(DraError("s3cret is stale"), ClaimRecord(uid="u", answers=answers))
    assert str(error) == f"{HIDDEN} is stale"


def test_a_defect_is_reported_with_its_location_and_without_its_message() -> None:
    with pytest.raises(KeyError) as raised:
        raise KeyError(CANARY)
    texts = format_origin(raised.value)
    assert texts.startswith("KeyError at ")
    assert Path(__file__).name in texts
    assert CANARY not in texts
