"""What a task's resources mean. Pure.

Source: Redfish specification (DSP0266), "Asynchronous operations"; Task schema.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dradriver_fabric_cxl.fabric.errors import (
    FabricError,
    ManagerBusyError,
    ManagerUnreachableError,
    NoCapacityError,
)
from dradriver_fabric_cxl.fabric.objects import ObjectKind, RunningTask, TaskOutcome, TaskProgress
from dradriver_fabric_cxl.fabric.redfish.answers import (
    RedfishAnswer,
    follow,
    make_http_error,
    messages_of,
    reports_no_capacity,
    to_path,
)
from dradriver_fabric_cxl.fabric.tags import parse_identity

__all__ = ["has_ended", "parse_progress", "parse_running_task"]

_RUNNING: Final = frozenset(
    {"New", "Starting", "Running", "Suspended", "Interrupted", "Pending", "Stopping", "Service", "Cancelling"}
)


def parse_progress(answer: RedfishAnswer) -> TaskProgress:
    """Return how a task is going.

    Args:
        answer: the answer of the task, or of its monitor, which ends with the answer of the request itself.

    Raises:
        ManagerBusyError: the manager is busy, so the answer says nothing about the task.
        ManagerUnreachableError: the manager failed. It may have failed to answer, or to execute the request:
            only the task shows that.
    """
    if answer.status in {404, 410}:
        return TaskProgress(TaskOutcome.LOST)
    if answer.status == 202:
        return TaskProgress(TaskOutcome.RUNNING, retry_after=answer.retry_after)
    if answer.status >= 300:
        error = make_http_error(answer)
        if isinstance(error, ManagerBusyError | ManagerUnreachableError):
            raise error
        return TaskProgress(TaskOutcome.FAILED, error=error)
    state = answer.body.get("TaskState")
    if not isinstance(state, str):
        return TaskProgress(TaskOutcome.COMPLETED, answer.location or to_path(answer.body.get("@odata.id")))
    if state in _RUNNING:
        return TaskProgress(TaskOutcome.RUNNING, retry_after=answer.retry_after)
    if state == "Completed" and answer.body.get("TaskStatus", "OK") != "Critical":
        return TaskProgress(TaskOutcome.COMPLETED, answer.location or _find_created(answer.body))
    texts = "; ".join(str(each["Message"]) for each in messages_of(answer.body) if each.get("Message"))
    text = f"task {answer.path}: {state}" + (f": {texts}" if texts else "")
    cause = NoCapacityError(text) if reports_no_capacity(answer.body) else FabricError(text)
    return TaskProgress(TaskOutcome.FAILED, error=cause)


def has_ended(body: Mapping[str, Any]) -> bool:
    """Return whether a task has ended.

    Args:
        body: the task.
    """
    return body.get("TaskState") not in _RUNNING


def parse_running_task(
    path: str, body: Mapping[str, Any], kinds: Mapping[str, ObjectKind]
) -> RunningTask | None:
    """Return the task if it runs and makes an object with a tag.

    Args:
        path: path of the task.
        body: the task.
        kinds: what a member of each collection is, by the collection's path.
    """
    payload = body.get("Payload")
    if has_ended(body) or not isinstance(payload, Mapping):
        return None
    kind = kinds.get(to_path(payload.get("TargetUri")).rstrip("/"))
    try:
        requested = msgspec.json.decode(str(payload.get("JsonBody", "")))
    except msgspec.DecodeError:
        return None
    if kind is None or not isinstance(requested, Mapping):
        return None
    identity = parse_identity(requested.get("Name"), requested.get("Description"))
    if identity is None:
        return None
    return RunningTask(to_path(body.get("TaskMonitor")) or path, identity, kind)


def _find_created(body: Mapping[str, Any]) -> str:
    links = body.get("Links")
    created = links.get("CreatedResources") if isinstance(links, Mapping) else None
    return follow(created[0]) if isinstance(created, list) and created else ""
