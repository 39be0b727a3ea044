"""The errors that the server answers: Kubernetes' `Status` objects, raised as exceptions."""

from collections.abc import Sequence
from dataclasses import dataclass

from dradriver.cluster.apiserver.formats.values import Object

GROUP_SUFFIX = "k8s.io"


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason among several: Kubernetes' reason (`FieldValueInvalid`), a sentence and the field's path."""

    reason: str
    message: str
    field: str = ""

    def body(self) -> Object:
        """As `details.causes` holds it."""
        body = {"reason": self.reason, "message": self.message}
        return {**body, "field": self.field} if self.field else body


@dataclass(frozen=True, slots=True)
class About:
    """What an error is about: a group and resource (or kind), and a name."""

    group: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""

    @property
    def qualified(self) -> str:
        """`resourceclaims.resource.k8s.io`, as messages name a resource."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


class StatusError(Exception):
    """A refusal, as the client gets it.

    Attributes:
        code: the HTTP status.
        reason: Kubernetes' word for it: `NotFound`, `Conflict`, `Invalid` ...
        retry_after: seconds for the `Retry-After` header, 0 for none.
        token: with what an expired list can be gone on from, "" for nothing.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        about: About | None = None,
        causes: Sequence[Cause] = (),
        retry_after: int = 0,
        token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.about = about
        self.causes = tuple(causes)
        self.retry_after = retry_after
        self.token = token

    def body(self) -> Object:
        """The `Status` object."""
        body: Object = {
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "metadata": {"continue": self.token} if self.token else {},
            "message": self.message, "reason": self.reason, "code": self.code,
        }  # fmt: skip
        if not self.reason:
            del body["reason"]
        details: Object = {}
        if self.about is not None:
            about = self.about
            pairs = (("name", about.name), ("group", about.group), ("kind", about.kind), ("uid", about.uid))
            details |= {key: value for key, value in pairs if value}
        if self.causes:
            details["causes"] = [cause.body() for cause in self.causes]
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        if details:
            body["details"] = details
        return body


def success(about: About) -> Object:
    """The `Status` that a delete answers."""
    pairs = (("name", about.name), ("group", about.group), ("kind", about.kind), ("uid", about.uid))
    details = {key: value for key, value in pairs if value}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def bad_request(message: str) -> StatusError:
    """400: the request can't be understood."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """401: no valid token."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(about: About, why: str, causes: Sequence[Cause] = ()) -> StatusError:
    """403: not allowed."""
    name = f' "{about.name}"' if about.name else ""
    return StatusError(403, "Forbidden", f"{about.qualified}{name} is forbidden: {why}", about, causes)


def not_found(about: About) -> StatusError:
    """404: no such object."""
    return StatusError(404, "NotFound", f'{about.qualified} "{about.name}" not found', about)


def no_such_path() -> StatusError:
    """404: nothing is served at this path."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", About())


def method_not_allowed() -> StatusError:
    """405: the path exists, the verb does not."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, About())


def not_acceptable(supported: str) -> StatusError:
    """406: none of the accepted media types can be made."""
    message = f"only the following media types are accepted: {supported}"
    return StatusError(406, "NotAcceptable", message)


def too_large(why: str = "limit is 3145728") -> StatusError:
    """413: the request, or what it would store, is too large."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {why}")


def unsupported_media_type(supported: str) -> StatusError:
    """415: the body's media type is not understood."""
    message = f"the body of the request was in an unknown format - accepted media types include: {supported}"
    return StatusError(415, "UnsupportedMediaType", message)


def already_exists(about: About) -> StatusError:
    """409: the name is taken."""
    return StatusError(409, "AlreadyExists", f'{about.qualified} "{about.name}" already exists', about)


def conflict(about: About, why: str, causes: Sequence[Cause] = ()) -> StatusError:
    """409: the object is not as the client thinks."""
    message = f'Operation cannot be fulfilled on {about.qualified} "{about.name}": {why}'
    return StatusError(409, "Conflict", message, about, causes)


def stale(about: About) -> StatusError:
    """409: the resourceVersion in the request is not the stored one."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(about, why)


def expired(message: str) -> StatusError:
    """410: the wanted history is gone."""
    return StatusError(410, "Expired", message)


def invalid(kind: About, causes: Sequence[Cause]) -> StatusError:
    """422: the object breaks rules, all listed. `kind` names the kind, not the resource."""
    lines = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    listed = lines[0] if len(lines) == 1 else "[" + ", ".join(lines) + "]"
    message = f'{kind.qualified} "{kind.name}" is invalid: {listed}'
    return StatusError(422, "Invalid", message, kind, causes)


def internal(why: str) -> StatusError:
    """500: the server's own fault, or a fault that a test asked for."""
    return StatusError(500, "InternalError", f"Internal error occurred: {why}", None, [Cause("", why)])
