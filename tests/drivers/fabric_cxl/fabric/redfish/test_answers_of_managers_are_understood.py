"""Answers, tasks and resources, in the forms that managers give them."""

import datetime as dt
from typing import Any

import pytest

from dradriver_fabric_cxl.fabric import (
    AnswerLostError,
    AttachmentIdentity,
    FabricConflictError,
    FabricError,
    FabricHealth,
    ManagerBusyError,
    ManagerUnreachableError,
    NoCapacityError,
    ObjectChangedError,
    ObjectNotFoundError,
    RequestRefusedError,
)
from dradriver_fabric_cxl.fabric.objects import ObjectKind, RunningTask, TaskOutcome, TaskProgress
from dradriver_fabric_cxl.fabric.redfish.answers import (
    RedfishAnswer,
    make_http_error,
    parse_retry_after,
    to_path,
)
from dradriver_fabric_cxl.fabric.redfish.endpoints import parse_accelerator, parse_accelerator_serial
from dradriver_fabric_cxl.fabric.redfish.resources import parse_health, parse_serial
from dradriver_fabric_cxl.fabric.redfish.tasks import parse_progress, parse_running_task

NOW = dt.datetime(2026, 11, 22, 21, 0, 0, tzinfo=dt.UTC)
KINDS = {"/d/1/MemoryChunks": ObjectKind.CHUNK, "/f/Connections": ObjectKind.CONNECTION}
IDENTITY = AttachmentIdentity("claim", "pool", "device", "now")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("3", 3),
        (" 0 ", 0),
        ("Sun, 22 Nov 2026 21:00:05 GMT", 5),
        ("Sun, 22 Nov 2026 20:00:00 GMT", 0),
        ("soon", None),
        ("-1", None),
        ("", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, NOW) == seconds


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/redfish/v1/Tasks/1", "/redfish/v1/Tasks/1"),
        ("https://elsewhere.example/redfish/v1/Tasks/1?a=b", "/redfish/v1/Tasks/1?a=b"),
        (None, ""),
        (3, ""),
        ("", ""),
    ],
)
def test_a_uri_never_leads_to_another_host(uri: object, path: str) -> None:
    assert to_path(uri) == path


@pytest.mark.parametrize(
    ("method", "status", "kind"),
    [
        ("POST", 400, RequestRefusedError),
        ("POST", 403, RequestRefusedError),
        ("DELETE", 404, ObjectNotFoundError),
        ("POST", 409, FabricConflictError),
        ("DELETE", 412, ObjectChangedError),
        ("POST", 429, ManagerBusyError),
        ("POST", 500, AnswerLostError),
        ("GET", 500, ManagerUnreachableError),
        ("POST", 503, ManagerBusyError),
        ("POST", 507, NoCapacityError),
    ],
)
def test_a_status_becomes_an_error(method: str, status: int, kind: type[FabricError]) -> None:
    error = make_http_error(RedfishAnswer("/x", method, status))
    assert type(error) is kind
    assert str(error) == f"{method} /x: HTTP {status}"


def test_an_error_has_the_managers_messages() -> None:
    info = [{"MessageId": "Base.1.0.PropertyValueNotInList", "Message": "Too odd."}, {"Message": "Too small."}]
    body = {"error": {"code": "Base.1.0.GeneralError", "@Message.ExtendedInfo": info}}
    assert str(make_http_error(RedfishAnswer("/x", "POST", 400, body))).endswith(
        "HTTP 400: Too odd.; Too small."
    )
    plain = {"error": {"message": "No."}}
    assert str(make_http_error(RedfishAnswer("/x", "POST", 400, plain))).endswith("HTTP 400: No.")


def test_a_message_can_report_that_there_is_no_room() -> None:
    body = {"error": {"@Message.ExtendedInfo": [{"MessageId": "Base.1.19.ResourceExhaustion"}]}}
    assert isinstance(make_http_error(RedfishAnswer("/x", "POST", 400, body)), NoCapacityError)


def progress(status: int, body: dict[str, Any] | None = None, location: str = "") -> TaskProgress:
    return parse_progress(RedfishAnswer("/tasks/1", "GET", status, body or {}, location, retry_after=2))


def test_a_running_task_is_asked_again_when_the_manager_wants_it() -> None:
    running = TaskProgress(TaskOutcome.RUNNING, retry_after=2)
    assert progress(202) == running
    for state in ("New", "Starting", "Running", "Suspended", "Pending", "Stopping", "Service", "Cancelling"):
        assert progress(200, {"TaskState": state}) == running


@pytest.mark.parametrize(
    ("status", "body", "location", "path"),
    [
        (201, {}, "/chunks/1", "/chunks/1"),
        (200, {"@odata.id": "/chunks/1"}, "", "/chunks/1"),
        (204, {}, "", ""),
        (200, {"TaskState": "Completed", "TaskStatus": "OK"}, "", ""),
        (200, {"TaskState": "Completed", "Links": {"CreatedResources": [{"@odata.id": "/c/2"}]}}, "", "/c/2"),
    ],
)
def test_a_completed_task_names_what_it_made(
    status: int, body: dict[str, Any], location: str, path: str
) -> None:
    assert progress(status, body, location) == TaskProgress(TaskOutcome.COMPLETED, path)


@pytest.mark.parametrize("state", ["Exception", "Killed", "Cancelled"])
def test_a_task_that_ended_badly_has_its_messages(state: str) -> None:
    failed = progress(200, {"TaskState": state, "Messages": [{"Message": "The switch is hot."}]})
    assert failed.outcome is TaskOutcome.FAILED
    assert str(failed.error) == f"task /tasks/1: {state}: The switch is hot."


def test_a_task_can_fail_for_want_of_room_and_for_a_conflict() -> None:
    assert isinstance(progress(507).error, NoCapacityError)
    assert isinstance(progress(409).error, FabricConflictError)
    full = {"TaskState": "Exception", "Messages": [{"MessageId": "Base.1.0.InsufficientStorage"}]}
    assert isinstance(progress(200, full).error, NoCapacityError)


@pytest.mark.parametrize("status", [404, 410])
def test_an_unknown_task_is_lost(status: int) -> None:
    assert progress(status) == TaskProgress(TaskOutcome.LOST)


def test_a_busy_manager_says_nothing_about_a_task() -> None:
    with pytest.raises(ManagerBusyError):
        progress(503)


@pytest.mark.parametrize("status", [500, 502, 504])
def test_an_error_of_the_manager_says_nothing_about_a_task(status: int) -> None:
    with pytest.raises(ManagerUnreachableError):
        progress(status)


def task(**changes: object) -> dict[str, Any]:
    quoted = IDENTITY.description.replace('"', '\\"')
    request = f'{{"Name": "{IDENTITY.tag}", "Description": "{quoted}"}}'
    payload = {"HttpOperation": "POST", "TargetUri": "https://manager/d/1/MemoryChunks", "JsonBody": request}
    return {"TaskState": "Running", "TaskMonitor": "/monitors/1", "Payload": payload | changes}


def test_a_task_is_found_by_the_tag_in_its_payload() -> None:
    assert parse_running_task("/tasks/1", task(), KINDS) == RunningTask(
        "/monitors/1", IDENTITY, ObjectKind.CHUNK
    )
    connecting = task(TargetUri="/f/Connections")
    assert parse_running_task("/tasks/1", connecting, KINDS) == RunningTask(
        "/monitors/1", IDENTITY, ObjectKind.CONNECTION
    )


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"TaskState": "Running"},
        task() | {"TaskState": "Completed"},
        task(JsonBody="{"),
        task(JsonBody="[]"),
        task(JsonBody='{"Name": "of somebody else"}'),
        task(TargetUri="/redfish/v1/Subscriptions"),
    ],
)
def test_other_tasks_are_ignored(body: dict[str, Any]) -> None:
    assert parse_running_task("/tasks/1", body, KINDS) is None


@pytest.mark.parametrize(
    ("body", "serial"),
    [
        (
            {"Identifiers": [{"DurableNameFormat": "GCXLID", "DurableName": "00-00-00-00-00-00-12-34:0001"}]},
            0x1234,
        ),
        ({"Identifiers": [{"DurableNameFormat": "UUID", "DurableName": "12-34"}]}, None),
        ({"Identifiers": [{"DurableNameFormat": "GCXLID", "DurableName": "unknown"}]}, None),
        ({}, None),
    ],
)
def test_a_serial_number_is_part_of_the_gcxlid(body: dict[str, Any], serial: int | None) -> None:
    assert parse_serial(body) == serial


@pytest.mark.parametrize(
    ("number", "serial"),
    [
        ("00-00-00-00-00-00-12-34", 0x1234),
        ("00:00:00:ff:FE:00:12:34", 0xFF_FE00_1234),
        ("8000000000001234", 0x8000_0000_0000_1234),
        ("1650217010482", None),
        ("00-00-00-00-00-00-12-34-56", None),
        ("GPU-1234", None),
        (None, None),
    ],
)
def test_a_serial_number_of_an_accelerator_has_the_eight_bytes_of_its_pci_device(
    number: str | None, serial: int | None
) -> None:
    assert parse_accelerator_serial({"SerialNumber": number}) == serial


def test_an_accelerator_has_its_pci_ids() -> None:
    entity = {"EntityPciId": {"VendorId": "0x10de", "DeviceId": "0x2331"}}
    found = parse_accelerator(
        {"@odata.id": "/e/gpu", "ConnectedEntities": [entity], "Status": {"Health": "Warning"}}
    )
    assert (found.id, found.vendor, found.device, found.health) == (
        "gpu",
        "0x10de",
        "0x2331",
        FabricHealth.WARNING,
    )


def test_a_resource_without_a_health_is_healthy() -> None:
    assert parse_health({}) is FabricHealth.OK
    assert parse_health({"Status": {"Health": "Excellent"}}) is FabricHealth.OK
