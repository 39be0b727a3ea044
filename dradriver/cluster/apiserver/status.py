"""The errors with which the server answers: Kubernetes' `Status` objects, raised as exceptions."""

from collections.abc import Sequence
from dataclasses import dataclass

from dradriver.cluster.apiserver.formats.values import Object


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause of an error: Kubernetes' reason (`FieldValueInvalid`), a sentence and the field's path."""

    reason: str
    message: str
    field: str = ""

    def body(self) -> Object:
        """Return the entry of `details.causes`."""
        body = {"reason": self.reason, "message": self.message}
        return {**body, "field": self.field} if self.field else body


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of an error: a group and resource (or kind), and a name."""

    group: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""

    @property
    def details(self) -> Object:
        """The entries of `details` in a Status."""
        pairs = (("name", self.name), ("group", self.group), ("kind", self.kind), ("uid", self.uid))
        return {key: value for key, value in pairs if value}

    @property
    def qualified(self) -> str:
        """The resource's name in messages: `resourceclaims.resource.k8s.io`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


class StatusError(Exception):
    """A rejection, in the form in which the client gets it.

    Attributes:
        code: the HTTP status.
        reason: Kubernetes' reason: `NotFound`, `Conflict`, `Invalid` ...
        retry_after: seconds for the `Retry-After` header; 0: no header.
        token: the token with which an expired list can continue; "" for none.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        subject: Subject | None = None,
        causes: Sequence[Cause] = (),
        retry_after: int = 0,
        token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.subject = subject
        self.causes = tuple(causes)
        self.retry_after = retry_after
        self.token = token

    def body(self) -> Object:
        """Return the `Status` object."""
        body: Object = {
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "metadata": {"continue": self.token} if self.token else {},
            "message": self.message, "reason": self.reason, "code": self.code,
        }  # fmt: skip
        if not self.reason:
            del body["reason"]
        details = self.subject.details if self.subject is not None else {}
        if self.causes:
            details["causes"] = [cause.body() for cause in self.causes]
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        if details:
            body["details"] = details
        return body


def success(subject: Subject) -> Object:
    """Return the `Status` that answers a delete."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": subject.details,
    }


def bad_request(message: str) -> StatusError:
    """Return a 400: the request is malformed."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """Return a 401: the request has no valid token."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(subject: Subject, detail: str, causes: Sequence[Cause] = ()) -> StatusError:
    """Return a 403: the user lacks the permission."""
    name = f' "{subject.name}"' if subject.name else ""
    return StatusError(403, "Forbidden", f"{subject.qualified}{name} is forbidden: {detail}", subject, causes)


def not_found(subject: Subject) -> StatusError:
    """Return a 404: the object does not exist."""
    return StatusError(404, "NotFound", f'{subject.qualified} "{subject.name}" not found', subject)


def no_such_path() -> StatusError:
    """Return a 404: nothing is served at this path."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", Subject())


def method_not_allowed() -> StatusError:
    """Return a 405: the path exists, the verb does not."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, Subject())


def not_acceptable(supported: str) -> StatusError:
    """Return a 406: the server supports none of the accepted media types."""
    message = f"only the following media types are accepted: {supported}"
    return StatusError(406, "NotAcceptable", message)


def too_large(detail: str = "limit is 3145728") -> StatusError:
    """Return a 413: the request, or the object that it would store, is too large."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {detail}")


def unsupported_media_type(supported: str) -> StatusError:
    """Return a 415: the server does not support the body's media type."""
    message = f"the body of the request was in an unknown format - accepted media types include: {supported}"
    return StatusError(415, "UnsupportedMediaType", message)


def already_exists(subject: Subject) -> StatusError:
    """Return a 409: the name is taken."""
    return StatusError(409, "AlreadyExists", f'{subject.qualified} "{subject.name}" already exists', subject)


def conflict(subject: Subject, detail: str, causes: Sequence[Cause] = ()) -> StatusError:
    """Return a 409: the object differs from the client's assumption."""
    message = f'Operation cannot be fulfilled on {subject.qualified} "{subject.name}": {detail}'
    return StatusError(409, "Conflict", message, subject, causes)


def stale(subject: Subject) -> StatusError:
    """Return a 409: the resourceVersion in the request is not the stored resourceVersion."""
    detail = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(subject, detail)


def expired(message: str) -> StatusError:
    """Return a 410: the requested history is no longer kept."""
    return StatusError(410, "Expired", message)


def invalid(kind: Subject, causes: Sequence[Cause]) -> StatusError:
    """Return a 422 that lists all rules that the object breaks. `kind` names the kind, not the resource."""
    lines = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    listed = lines[0] if len(lines) == 1 else "[" + ", ".join(lines) + "]"
    message = f'{kind.qualified} "{kind.name}" is invalid: {listed}'
    return StatusError(422, "Invalid", message, kind, causes)


def internal(detail: str) -> StatusError:
    """Return a 500: a fault of the server, or a fault that a test injected."""
    return StatusError(500, "InternalError", f"Internal error occurred: {detail}", None, [Cause("", detail)])
