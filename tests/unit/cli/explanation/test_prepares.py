"""An allocated claim is not ready while its node fails to prepare it. The kubelet's message is shown."""

import json
from collections.abc import Callable

import pytest
from click.testing import Result
from msgspec.structs import replace

from dradriver.model.core.workload import Pod, PodCondition, PodStatus
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing.builders import allocated, claim, pod
from tests.unit.cli.worlds import listed

Command = Callable[..., Result]
SAID = (
    "Failed to prepare dynamic resources: prepare dynamic resources: "
    "NodePrepareResources failed for ResourceClaim led: brightness must be between 0 and 100"
)
UNREGISTERED = (
    "Failed to prepare dynamic resources: prepare dynamic resources: "
    "DRA driver fabric.example.com is not registered"
)


def event(
    message: str, moment: int = 0, uid: str = "uid-pod-1", reason: str = "FailedPrepareDynamicResources"
) -> object:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"e{moment}", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "pod-1", "uid": uid},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2026-01-01T00:00:{moment:02}Z",
    }


def waiting(*claims: str, sandbox: bool = False) -> Pod:
    made = pod(*claims)
    condition = PodCondition(type="PodReadyToStartContainers", status=str(sandbox))
    return replace(
        made,
        metadata=replace(made.metadata, uid="uid-pod-1"),
        spec=replace(made.spec, node_name="node-1"),
        status=PodStatus(phase="Pending", conditions=[condition]),
    )


def held(name: str, driver: str = "led.example.com") -> ResourceClaim:
    return allocated(claim(name=name), f"{name}-0", driver=driver)


def explain(dradriver: Command, *objects: object, what: str = "pod", name: str = "pod-1") -> Result:
    return dradriver("explain", what, name, "-f", "-", stdin=listed(*objects))


def states(dradriver: Command, *objects: object) -> dict[str, str]:
    result = dradriver("explain", "pod", "pod-1", "-f", "-", "-o", "json", stdin=listed(*objects))
    return {each["claim"]: each["state"] for each in json.loads(result.stdout)["claims"]}


def test_the_kubelets_message_belongs_to_the_claim_that_it_names(dradriver: Command) -> None:
    world = (waiting("led", "led-2"), held("led"), held("led-2"), event("older", 1), event(SAID, 5))
    text = explain(dradriver, *world).stdout
    assert (
        "claim default/led is allocated, but the node fails to prepare it: led.example.com/node-1/led-0" in text
    )
    assert f"ago: {SAID}" in text
    assert "claim default/led-2 is ready" in text
    assert states(dradriver, *world) == {"default/led": "not-prepared", "default/led-2": "ready"}


def test_a_message_about_a_driver_belongs_to_its_claims(dradriver: Command) -> None:
    world = (waiting("led", "gpu"), held("led"), held("gpu", "fabric.example.com"), event(UNREGISTERED))
    assert states(dradriver, *world) == {"default/led": "ready", "default/gpu": "not-prepared"}


def test_a_message_that_names_no_claim_belongs_to_all_claims(dradriver: Command) -> None:
    world = (waiting("led", "gpu"), held("led"), held("gpu"), event("checkpoint is corrupt"))
    assert set(states(dradriver, *world).values()) == {"not-prepared"}


def test_explain_claim_has_the_message_too(dradriver: Command) -> None:
    text = explain(dradriver, waiting("led"), held("led"), event(SAID), what="claim", name="led").stdout
    assert "claim default/led is allocated, but the node fails to prepare it" in text
    assert SAID in text


@pytest.mark.parametrize(
    "world",
    [
        (waiting("led", sandbox=True), held("led"), event(SAID)),
        (waiting("led"), held("led"), event(SAID, uid="uid-of-another")),
        (waiting("led"), held("led"), event("a probe failed", reason="Unhealthy")),
        (waiting("led"), held("led")),
    ],
    ids=["the sandbox exists", "of another pod", "about something else", "without an event"],
)
def test_a_claim_without_a_current_message_is_ready(dradriver: Command, world: tuple[object, ...]) -> None:
    assert states(dradriver, *world) == {"default/led": "ready"}
