"""`dradriver get claims`: mode, controller and state of classic claims (KEP-3063), from files and a cluster."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result
from msgspec.structs import replace

from dradriver.cli.classic import ClassicClaims
from dradriver.cli.get.claims import _Context, _row
from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import CLAIMS, CLASSES, Client
from dradriver.model.resource.claim import ConsumerReference, ResourceClaim
from dradriver.testing.builders import allocated, claim, device_class, device_request, pod
from tests.unit.cli.classic_objects import CONTROLLER, OTHER, classic_claim, classic_class, record, requested
from tests.unit.cli.worlds import listed

Command = Callable[..., Result]
GONE = datetime(2026, 1, 1, tzinfo=UTC)


def reserved(made: ResourceClaim) -> ResourceClaim:
    user = ConsumerReference(resource="pods", name="pod-1", uid="uid-1")
    return replace(made, status=replace(made.status, reserved_for=[user]))


def deleted(made: ResourceClaim) -> ResourceClaim:
    return replace(made, metadata=replace(made.metadata, deletion_timestamp=GONE))


def rows(dradriver: Command, *objects: object) -> list[list[str]]:
    result = dradriver("get", "claims", "-f", "-", stdin=listed(*objects))
    assert result.exit_code == 0, result.output
    return [line.split() for line in result.stdout.splitlines()]


def test_a_table_of_structured_and_classic_claims(dradriver: Command) -> None:
    begun = classic_claim("allocated", begun=True)
    result = dradriver(
        *("get", "claims", "-f", "-"),
        stdin=listed(
            classic_class(),
            device_class(),
            claim(name="structured"),
            classic_claim("delayed"),
            classic_claim("immediate", mode="Immediate"),
            classic_claim("begun", begun=True),
            reserved(allocated(begun, "gpu-0", driver="gpu.example.com")),
        ),
    )
    assert result.stdout.splitlines() == [
        "NAMESPACE  NAME        STATE               AGE  NODES   DEVICES                       RESERVED FOR  "
        "MODE                  CONTROLLER          WAITING  WHY",
        "default    structured  pending             -    -       -                             -             "
        "-                     -                   -        no pod uses it",
        "default    delayed     pending             -    -       -                             -             "
        f"WaitForFirstConsumer  {CONTROLLER}  -        no pod uses it",
        "default    immediate   pending             -    -       -                             -             "
        f"Immediate             {CONTROLLER}  -        controller {CONTROLLER} allocates it without a pod",
        "default    begun       allocating          -    -       -                             -             "
        f"WaitForFirstConsumer  {CONTROLLER}  -        no pod uses it",
        "default    allocated   allocated,reserved  -    node-1  gpu.example.com/node-1/gpu-0  pods/pod-1    "
        f"WaitForFirstConsumer  {CONTROLLER}  -        -",
    ]


@pytest.mark.parametrize(
    ("made", "state"),
    [
        (classic_claim(), "pending"),
        (classic_claim(begun=True), "allocating"),
        (allocated(classic_claim(begun=True), "gpu-0"), "allocated"),
        (reserved(allocated(classic_claim(begun=True), "gpu-0")), "allocated,reserved"),
        (requested(allocated(classic_claim(begun=True), "gpu-0")), "deallocating,allocated"),
        (deleted(allocated(classic_claim(begun=True), "gpu-0")), "deallocating,allocated"),
        (deleted(classic_claim(begun=True)), "deallocating"),
        (deleted(classic_claim()), "deleted"),
        (deleted(allocated(claim(), "gpu-0")), "deleted,allocated"),
    ],
)
def test_the_state_of_a_claim(dradriver: Command, made: ResourceClaim, state: str) -> None:
    assert rows(dradriver, classic_class(), device_class(), made)[1][2] == state


def test_a_request_in_the_controllers_own_object_shows_too(dradriver: Command) -> None:
    """A claim without devices has no condition, so the request is in the ControllerAllocation."""
    made = allocated(classic_claim(begun=True))
    assert (
        rows(dradriver, classic_class(), made, record(made, requested=True))[1][2] == "deallocating,allocated"
    )
    assert rows(dradriver, classic_class(), made, record(made))[1][2] == "allocated"


def test_the_controller_stays_known_when_the_class_is_gone_or_has_another_controller(
    dradriver: Command,
) -> None:
    """`status.controllerName` is a copy of the name at the time when allocation started."""
    made = classic_claim(mode="Immediate", begun=True)
    assert rows(dradriver, made)[1][7:9] == ["Immediate", CONTROLLER]
    changed = replace(classic_class(OTHER), metadata=classic_class().metadata)
    assert rows(dradriver, changed, made)[1][7:9] == ["Immediate", CONTROLLER]


def test_a_claim_that_breaks_a_rule_has_the_rule(dradriver: Command) -> None:
    mixed = claim(device_request(CONTROLLER, name="a"), device_request(OTHER, name="b"))
    row = rows(dradriver, classic_class(), classic_class(OTHER), mixed, pod("claim-1"))[1]
    assert row[7:9] == ["-", "-"]
    assert "classes of one claim must have one controller" in " ".join(row[9:])


def test_files_have_namespaces(dradriver: Command) -> None:
    other = claim(name="other", namespace="team")
    text = listed(claim(name="mine"), other)
    assert "other" not in dradriver("get", "claims", "-f", "-", stdin=text).stdout
    assert "mine" not in dradriver("get", "claims", "-n", "team", "-f", "-", stdin=text).stdout
    shown = dradriver("get", "claims", "-A", "-f", "-", "-o", "json", stdin=text)
    assert [each["metadata"]["name"] for each in json.loads(shown.stdout)["items"]] == ["mine", "other"]


async def test_a_cluster_without_the_resources_of_classic_dra_has_no_warning(
    dradriver: Command, tmp_path: Path
) -> None:
    server = ApiServer(tmp_path / "server")
    await server.start()
    path = tmp_path / "kubeconfig"
    await asyncio.to_thread(server.write_kubeconfig, path)
    try:
        async with await Client.connect(str(path)) as client:
            await client.create(CLASSES, classic_class(), into=dict)
            await client.create(CLAIMS, classic_claim(), "default", into=dict)
        shown = await asyncio.to_thread(dradriver, "get", "claims", "--kubeconfig", str(path))
    finally:
        await server.stop()
    assert shown.stderr == ""
    assert shown.stdout.splitlines()[1].split()[7:9] == ["WaitForFirstConsumer", CONTROLLER]


def test_without_the_permission_to_list_classes_the_mode_is_unknown() -> None:
    """A user can list the claims of a namespace, but not the classes of the cluster."""
    now = datetime.now(UTC)
    context = _Context(None, ClassicClaims({}), knows_classes=False)
    assert _row(context, claim(), now)[7:9] == ["?", "?"]
    assert _row(context, classic_claim(begun=True), now)[7:9] == ["WaitForFirstConsumer", CONTROLLER]
