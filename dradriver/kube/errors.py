"""Errors of requests to the API server. They are created from `metav1.Status` answers."""

# ruff: noqa: N818 - the names are those of the API's reasons: NotFound, Conflict, Gone

from collections.abc import Mapping
from typing import Final

import msgspec

from dradriver.errors import DraError
from dradriver.model.encoding.codec import Value

__all__ = [
    "AlreadyExists",
    "ApiError",
    "Conflict",
    "Forbidden",
    "Gone",
    "Invalid",
    "NotFound",
    "StatusDetails",
    "TooLong",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "error_from",
    "error_from_status",
]


class StatusCause(Value, frozen=True, kw_only=True):
    """One rule that a rejected object breaks."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Value, frozen=True, kw_only=True):
    """The object that a Status concerns, and the causes (`metav1.StatusDetails`)."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[StatusCause] = []
    retry_after_seconds: int = 0


class _Status(Value, frozen=True, kw_only=True):
    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class ApiError(DraError):
    """A request to the API server failed.

    Attributes:
        status: the HTTP status; 0 if there was no answer.
        reason: the API's reason: `NotFound`, `Conflict`, `Invalid` ...
        message: the server's message.
        details: the object and the rules that it breaks, as far as the server names them.
    """

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", details: StatusDetails | None = None
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or StatusDetails()
        super().__init__(message)


class Unauthorized(ApiError):
    """The server rejected the credentials (401)."""


class Forbidden(ApiError):
    """The user lacks the permission (403)."""


class NotFound(ApiError):
    """The object or the resource does not exist (404)."""


class AlreadyExists(ApiError):
    """An object with this name already exists (409)."""


class Conflict(ApiError):
    """Another client changed the object meanwhile, or a precondition does not hold (409)."""


class Gone(ApiError):
    """The resource version or continue token is too old (410). The caller must list again."""


class Invalid(ApiError):
    """The object breaks rules of the API (422)."""


class TooManyRequests(ApiError):
    """The server limits the rate of requests (429).

    Attributes:
        retry_after: seconds to wait before a retry; 1 if the server sent no number.
    """

    retry_after: float = 1.0


class Unavailable(ApiError):
    """There is no usable answer: connection refused or cut, timeout, or a server error (5xx).

    Attributes:
        sent: whether the request may have reached the server. If True, a write may have been carried out.
    """

    sent: bool = True


class TooLong(Unavailable):
    """The answer exceeds the size limit. A retry would give the same result."""


_BY_REASON: Final[Mapping[str, type[ApiError]]] = {"AlreadyExists": AlreadyExists}
_BY_STATUS: Final[Mapping[int, type[ApiError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def error_from(status: int, body: bytes, request: str, retry_after: str = "") -> ApiError:
    """Return the error for an HTTP answer.

    Args:
        status: the HTTP status.
        body: the body of the answer: a `Status` object, or any text if a proxy answered.
        request: method and path of the request. They are the message if the answer has none.
        retry_after: the value of the `Retry-After` header, in seconds.
    """
    try:
        answer = msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:
        answer = _Status()
    if answer.kind != "Status":
        text = body.decode(errors="replace").strip()[:200]
        answer = _Status(message=f"{request}: HTTP {status}{': ' if text else ''}{text}")
    kind = _BY_REASON.get(answer.reason) or _BY_STATUS.get(status)
    if kind is None:
        kind = Unavailable if status >= 500 else ApiError
    error = kind(answer.message, status=status, reason=answer.reason, details=answer.details)
    if isinstance(error, TooManyRequests):
        error.retry_after = _seconds(retry_after) or error.details.retry_after_seconds or 1.0
    return error


def error_from_status(body: bytes, request: str) -> ApiError:
    """Return the error for a `Status` object, which a watch delivers in an ERROR event."""
    answer = msgspec.json.decode(body, type=_Status)
    return error_from(answer.code or 500, body, request)


def _seconds(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0  # the value is an HTTP date, which no API server sends
