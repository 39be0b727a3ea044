"""What an answer of the manager means: errors, Retry-After, paths. Pure.

Source: Redfish specification (DSP0266), "Error responses" and "Status codes"; RFC 9110, section 10.2.3.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final

from yarl import URL

from dradriver_fabric_cxl.fabric.errors import (
    AnswerLostError,
    AuthenticationError,
    FabricConflictError,
    FabricError,
    ManagerBusyError,
    ManagerUnreachableError,
    NoCapacityError,
    ObjectChangedError,
    ObjectNotFoundError,
    RequestRefusedError,
)

__all__ = [
    "RedfishAnswer",
    "find_monitor",
    "follow",
    "make_http_error",
    "messages_of",
    "parse_retry_after",
    "reports_no_capacity",
    "to_path",
]

_NO_CAPACITY_IDS: Final = ("InsufficientStorage", "ResourceExhaustion", "CreateLimitReachedForResource")
_FIRST_SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True)
class RedfishAnswer:
    """An answer to one request.

    Attributes:
        path: path of the request.
        method: method of the request.
        body: the JSON object; empty if there is none.
        location: path in `Location`; "" if there is none.
        version: `ETag`; "" if there is none.
        retry_after: seconds; None if the manager does not ask for a pause.
        token: `X-Auth-Token` of a new session; "" otherwise.
    """

    path: str
    method: str
    status: int
    body: Mapping[str, Any] = field(default_factory=dict)
    location: str = ""
    version: str = ""
    retry_after: float | None = None
    token: str = field(default="", repr=False)


def to_path(uri: object) -> str:
    """Return the path of a URI, without host: requests go to the configured manager only.

    Args:
        uri: an absolute URL or a path; anything else gives "".
    """
    if not isinstance(uri, str) or not uri:
        return ""
    try:
        url = URL(uri)
        return str(url.relative() if url.absolute else url)
    except ValueError:
        return ""


def parse_retry_after(value: str | None, now: dt.datetime) -> float | None:
    """Return the seconds of `Retry-After`, which is a number of seconds or an HTTP date.

    Args:
        value: the header; None if there is none.
        now: the present time.

    Returns:
        None without a readable value; 0 for a date in the past.
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    aware = date if date.tzinfo else date.replace(tzinfo=dt.UTC)
    return max(0.0, (aware - now).total_seconds())


def messages_of(body: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the messages of an error or of a task.

    Args:
        body: an error response, or a task.
    """
    error = body.get("error")
    container = error if isinstance(error, Mapping) else body
    for name in ("@Message.ExtendedInfo", "Messages"):
        messages = container.get(name)
        if isinstance(messages, list):
            return tuple(each for each in messages if isinstance(each, Mapping))
    return ()


def reports_no_capacity(body: Mapping[str, Any]) -> bool:
    """Return whether a message reports that there is no room.

    Args:
        body: an error response, or a task.
    """
    ids = (str(each.get("MessageId", "")).rpartition(".")[2] for each in messages_of(body))
    return any(each in _NO_CAPACITY_IDS for each in ids)


def make_http_error(answer: RedfishAnswer) -> FabricError:
    """Return the error for an answer that is no success.

    Args:
        answer: an answer with a status from 300.
    """
    texts = [str(each["Message"]) for each in messages_of(answer.body) if each.get("Message")]
    error = answer.body.get("error")
    if not texts and isinstance(error, Mapping) and error.get("message"):
        texts = [str(error["message"])]
    text = f"{answer.method} {answer.path}: HTTP {answer.status}" + (f": {'; '.join(texts)}" if texts else "")
    if answer.status in {429, 503}:
        return ManagerBusyError(text, answer.retry_after)
    if answer.status == 507 or reports_no_capacity(answer.body):
        return NoCapacityError(text)
    classes: dict[int, type[FabricError]] = {
        401: AuthenticationError,
        404: ObjectNotFoundError,
        410: ObjectNotFoundError,
        409: FabricConflictError,
        412: ObjectChangedError,
    }
    server = ManagerUnreachableError if answer.method == "GET" else AnswerLostError
    return classes.get(answer.status, server if answer.status >= _FIRST_SERVER_ERROR else RequestRefusedError)(
        text
    )


def follow(reference: object) -> str:
    """Return the path that a reference names; "" for anything else.

    Args:
        reference: a JSON object with `@odata.id`.
    """
    return to_path(reference.get("@odata.id")) if isinstance(reference, Mapping) else ""


def find_monitor(answer: RedfishAnswer) -> str:
    """Return the path of the task of an accepted request.

    Args:
        answer: an answer with status 202.
    """
    return answer.location or to_path(answer.body.get("TaskMonitor")) or to_path(answer.body.get("@odata.id"))
