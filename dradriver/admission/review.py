"""Answer one AdmissionReview (`admission.k8s.io/v1`).

An object is rejected only for new errors in its spec. If an object has only old errors, it can still
be deleted, its status and metadata can be written, and its finalizers can be removed. Otherwise a claim with an
old error could never be cleaned up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

from dradriver.admission.classic import find_classic_errors
from dradriver.admission.configs import ConfigClasses, find_config_errors, stored_configs
from dradriver.errors import DraError, InvalidObjectError, Problem
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.encoding.codec import Value, decode
from dradriver.model.encoding.versions import GROUP, VERSIONS
from dradriver.model.resource.opaque import OPAQUE_KINDS

__all__ = ["MalformedReviewError", "Outcome", "Verdict", "review"]

_API_VERSION: Final = "admission.k8s.io/v1"
_NULL: Final = msgspec.Raw(b"null")

Outcome: TypeAlias = Literal["allowed", "denied"]


class MalformedReviewError(DraError):
    """The request is not a valid AdmissionReview, so it cannot be answered."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on a request.

    Attributes:
        answer: the AdmissionReview of the answer, as JSON text.
        outcome: whether the request is allowed.
        operation: the requested operation, such as `CREATE` or `UPDATE`.
        subject: kind, namespace and name of the object.
        error_count: the number of errors.
        warning: the warning for the client. Empty if there is none.
    """

    answer: bytes
    outcome: Outcome
    operation: str
    subject: str
    error_count: int
    warning: str


class _Kind(Value, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Request(Value, frozen=True, kw_only=True):
    uid: str = ""
    kind: _Kind = _Kind()
    operation: str = ""
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    object: msgspec.Raw = _NULL
    old_object: msgspec.Raw = _NULL


class _Review(Value, frozen=True):
    api_version: str = ""
    kind: str = ""
    request: _Request = _Request()


class _Named(Value, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


def review(body: bytes, known: ConfigClasses) -> Verdict:
    """Decide on one request.

    Args:
        body: the AdmissionReview as JSON text.
        known: the configuration classes of the drivers.

    Raises:
        MalformedReviewError: the request is not a valid AdmissionReview. The message is the reason.
    """
    try:
        request = _request(body)
        subject = _subject(request)
        problems = list(_find_errors(request, known))
    except InvalidObjectError as error:
        raise MalformedReviewError(f"not an AdmissionReview: {error}") from None
    except RecursionError:
        raise MalformedReviewError("the AdmissionReview is nested too deeply") from None
    warning = _warning(request)
    return Verdict(
        answer=_answer(request, subject, problems, warning),
        outcome="denied" if problems else "allowed",
        operation=request.operation,
        subject=subject,
        error_count=len(problems),
        warning=warning,
    )


def _request(body: bytes) -> _Request:
    decoded = decode(_Review, body, "AdmissionReview")
    if (decoded.api_version, decoded.kind) != (_API_VERSION, "AdmissionReview"):
        kind_text = f"{decoded.api_version or '(no apiVersion)'} {decoded.kind or '(no kind)'}"
        raise MalformedReviewError(f"must be {_API_VERSION} AdmissionReview, not {kind_text}")
    if not decoded.request.uid:
        raise MalformedReviewError("request.uid: is required")
    return decoded.request


def _find_errors(request: _Request, known: ConfigClasses) -> list[Problem]:
    if request.operation not in {"CREATE", "UPDATE"} or request.sub_resource or not _is_ours(request.kind):
        return []
    kind = request.kind.kind
    if bytes(request.object) == b"null":
        raise MalformedReviewError("request.object: is required")
    stored = stored_configs(kind, bytes(request.old_object)) if request.operation == "UPDATE" else ()
    classic = find_classic_errors(kind, bytes(request.object))
    before = set(find_classic_errors(kind, bytes(request.old_object))) if request.operation == "UPDATE" else ()
    return [
        *find_config_errors(kind, bytes(request.object), known, stored),
        *(problem for problem in classic if problem not in before),
    ]


def _is_ours(kind: _Kind) -> bool:
    return kind.group == GROUP and kind.version in VERSIONS and kind.kind in OPAQUE_KINDS


def _warning(request: _Request) -> str:
    """Return a warning if the webhook does not check objects of this kind; empty if it does.

    Such an object is not rejected: if the rules of the webhook match too many kinds, they must not block all
    writes.
    """
    if _is_ours(request.kind):
        return ""
    kind = request.kind
    return (
        f"{kind.group}/{kind.version} {kind.kind} is not checked by the webhook for opaque configuration, "
        f"which checks {', '.join(OPAQUE_KINDS)} of {GROUP} {', '.join(VERSIONS)}"
    )


def _subject(request: _Request) -> str:
    name = request.name
    if not name and bytes(request.object) != b"null":
        metadata = decode(_Named, bytes(request.object), "request.object").metadata
        name = metadata.name or f"{metadata.generate_name}*"
    return f"{request.kind.kind} {f'{request.namespace}/' if request.namespace else ''}{name}"


def _answer(request: _Request, subject: str, problems: Sequence[Problem], warning: str) -> bytes:
    response: dict[str, object] = {"uid": request.uid, "allowed": not problems}
    if problems:
        response["status"] = {
            "status": "Failure",
            "code": 422,
            "reason": "Invalid",
            "message": str(InvalidObjectError(subject, problems)),
            "details": {
                "group": request.kind.group,
                "kind": request.kind.kind,
                "name": request.name,
                "causes": [
                    {"reason": "FieldValueInvalid", "field": problem.path, "message": problem.rule}
                    for problem in problems
                ],
            },
        }
    if warning:
        response["warnings"] = [warning]
    return msgspec.json.encode({"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": response})
