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
        """Return the entry of `details.causes`."""
        body = {"reason": self.reason, "message": self.message}
        return {**body, "field": self.field} if self.field else body


@dataclass(frozen=True, slots=True)
class About:
    """The subject of an error: a group and resource (or kind), and a name."""

    group: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""

    @property
    def qualified(self) -> str:
        """The resource's name in messages: `resourceclaims.resource.k8s.io`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


class StatusError(Exception):
    """A refusal in the form that the client gets.

    Attributes:
        code: the HTTP status.
        reason: Kubernetes' reason: `NotFound`, `Conflict`, `Invalid` ...
        retry_after: seconds for the `Retry-After` header, 0 for none.
        token: the token with which an expired list can continue, "" for none.
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
        """Return the `Status` object."""
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
    """Return the `Status` that answers a delete."""
    pairs = (("name", about.name), ("group", about.group), ("kind", about.kind), ("uid", about.uid))
    details = {key: value for key, value in pairs if value}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def bad_request(message: str) -> StatusError:
    """Return a 400: the request is malformed."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """Return a 401: there is no valid token."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(about: About, why: str, causes: Sequence[Cause] = ()) -> StatusError:
    """Return a 403: the user lacks the permission."""
    name = f' "{about.name}"' if about.name else ""
    return StatusError(403, "Forbidden", f"{about.qualified}{name} is forbidden: {why}", about, causes)


def not_found(about: About) -> StatusError:
    """Return a 404: there is no such object."""
    return StatusError(404, "NotFound", f'{about.qualified} "{about.name}" not found', about)


def no_such_path() -> StatusError:
    """Return a 404: nothing is served at this path."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", About())


def method_not_allowed() -> StatusError:
    """Return a 405: the path exists, the verb does not."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, About())


def not_acceptable(supported: str) -> StatusError:
    """Return a 406: the server supports none of the accepted media types."""
    message = f"only the following media types are accepted: {supported}"
    return StatusError(406, "NotAcceptable", message)


def too_large(why: str = "limit is 3145728") -> StatusError:
    """Return a 413: the request, or the object that it would store, is too large."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {why}")


def unsupported_media_type(supported: str) -> StatusError:
    """Return a 415: the server does not support the body's media type."""
    message = f"the body of the request was in an unknown format - accepted media types include: {supported}"
    return StatusError(415, "UnsupportedMediaType", message)


def already_exists(about: About) -> StatusError:
    """Return a 409: the name is taken."""
    return StatusError(409, "AlreadyExists", f'{about.qualified} "{about.name}" already exists', about)


def conflict(about: About, why: str, causes: Sequence[Cause] = ()) -> StatusError:
    """Return a 409: the object differs from the client's assumption."""
    message = f'Operation cannot be fulfilled on {about.qualified} "{about.name}": {why}'
    return StatusError(409, "Conflict", message, about, causes)


def stale(about: About) -> StatusError:
    """Return a 409: the resourceVersion in the request is not the stored one."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(about, why)


def expired(message: str) -> StatusError:
    """Return a 410: the requested history is no longer kept."""
    return StatusError(410, "Expired", message)


def invalid(kind: About, causes: Sequence[Cause]) -> StatusError:
    """Return a 422 that lists all rules that the object breaks. `kind` names the kind, not the resource."""
    lines = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    listed = lines[0] if len(lines) == 1 else "[" + ", ".join(lines) + "]"
    message = f'{kind.qualified} "{kind.name}" is invalid: {listed}'
    return StatusError(422, "Invalid", message, kind, causes)


def internal(why: str) -> StatusError:
    """Return a 500: a fault of the server, or one that a test injected."""
    return StatusError(500, "InternalError", f"Internal error occurred: {why}", None, [Cause("", why)])
