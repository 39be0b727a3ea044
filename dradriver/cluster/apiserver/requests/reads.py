"""Get, list, and the lines of a watch."""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.formats.values import Object
from dradriver.cluster.apiserver.kinds.resources import CRDS, ServedResource
from dradriver.cluster.apiserver.requests.encoding import Encoder, form, prefers_protobuf
from dradriver.cluster.apiserver.requests.parse import ApiRequest
from dradriver.cluster.apiserver.requests.selectors import (
    FieldRequirement,
    Selection,
    parse_fields,
    parse_labels,
)
from dradriver.cluster.apiserver.status import About, Cause, StatusError, bad_request, invalid
from dradriver.cluster.apiserver.storage.store import Stored, StoredChange
from dradriver.cluster.apiserver.validation.field import not_supported


def encoder(server: ServerParts, request: ApiRequest) -> Encoder:
    """Return the encoder for the form that the Accept header requests.

    Raises:
        StatusError: 406.
    """
    resource = request.target.resource
    return Encoder(
        resource,
        form(request.accept),
        _printer(server, resource),
        request.query.get("includeObject") or "Metadata",
        verbatim=prefers_protobuf(request.accept),
    )


def _printer(server: ServerParts, resource: ServedResource) -> list[Object]:
    if resource.schema is not None or not resource.uid:
        return []
    definition = server.store.get(CRDS, "", f"{resource.plural}.{resource.group}")
    versions = definition.object["spec"]["versions"] if definition is not None else []
    found: Object = next((each for each in versions if each["name"] == resource.version), {})
    return list(found.get("additionalPrinterColumns") or ())


def fields_of(request: ApiRequest) -> tuple[FieldRequirement, ...]:
    """Return the field selector, with the paths of the stored object.

    Raises:
        StatusError: 400 for a field that selectors do not support.
    """
    resource = request.target.resource
    kind = f"{resource.api_version}, Kind={resource.kind}"
    parsed = parse_fields(request.query.get("fieldSelector", ""), resource.selectable, kind)
    return tuple(
        FieldRequirement(resource.selectable.get(each.path, each.path), each.equal, each.value)
        for each in parsed
    )


def selection(request: ApiRequest) -> Selection:
    """Return the selection of a list, watch or deletecollection.

    Raises:
        StatusError: 400 for malformed selectors.
    """
    labels = parse_labels(request.query.get("labelSelector", ""))
    return Selection(request.target.namespace, labels, fields_of(request))


def revision_of(request: ApiRequest) -> int:
    """Return the resourceVersion of a read, 0 for none.

    Raises:
        StatusError: 400 for text that is not a number.
    """
    text = request.query.get("resourceVersion", "")
    if not text:
        return 0
    if _DIGITS.fullmatch(text):
        return int(text)
    problem = "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
    why = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {problem}'
    raise bad_request(f"invalid resource version: resourceVersion: {why}")


_DIGITS = re.compile("[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: its objects, their revision, and the position of the next page."""

    items: list[Stored]
    revision: int
    token: str = ""
    remaining: int | None = None

    @property
    def metadata(self) -> Object:
        """Return the list's metadata."""
        metadata: Object = {"resourceVersion": str(self.revision)}
        if self.token:
            metadata["continue"] = self.token
            if self.remaining is not None:
                metadata["remainingItemCount"] = self.remaining
        return metadata


class _Token(msgspec.Struct):
    """Start of the next page: revision of the first page (-1: the newest), last key of the page before."""

    rv: int
    start: tuple[str, str]
    v: str = "meta.k8s.io/v1"


def list_page(server: ServerParts, request: ApiRequest) -> Page:
    """Return one page of a list.

    Raises:
        StatusError: 410 for a page of a revision that is no longer kept, 504 for a future revision.
    """
    wanted = selection(request)
    limit = max(0, request.number("limit"))
    if request.query.get("continue"):
        token = _read_token(request.query["continue"])
        (stored, revision), after = _continued(server, request, token), token.start
    else:
        stored, revision = _at(server, request)
        after = None
    items = [each for each in stored if (after is None or each.key > after) and wanted.matches(each.object)]
    if not limit or len(items) <= limit:
        return Page(items, revision)
    page = items[:limit]
    next_token = _write_token(_Token(revision, page[-1].key))
    return Page(page, revision, next_token, None if wanted.labels or wanted.fields else len(items) - limit)


def _continued(server: ServerParts, request: ApiRequest, token: _Token) -> tuple[list[Stored], int]:
    storage, store = request.target.resource.storage, server.store
    if token.rv < 0:
        return store.all(storage), store.revision
    try:
        return store.at(storage, token.rv), token.rv
    except StatusError as error:
        # The rest is still available, but not consistent. As in Kubernetes, the message explains this and has a
        # token.
        message = (
            "The provided continue parameter is too old to display a consistent list "
            "result. You can start a new list without "
            "the continue parameter, or use the continue token in this response to "
            "retrieve the remainder of the results. "
            "Continuing with the provided token results in an inconsistent list - "
            "objects that were created, modified, or "
            "deleted between the time the first chunk was returned and now may show up in the list."
        )
        rest = _write_token(_Token(-1, token.start))
        raise StatusError(410, "Expired", message, token=rest) from error


def _read_token(text: str) -> _Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (binascii.Error, msgspec.MsgspecError, ValueError) as error:
        why = "illegal base64 data at input byte 0" if isinstance(error, binascii.Error) else str(error)
        raise bad_request(f"invalid continue token: continue key is not valid: {why}") from error


def _write_token(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _at(server: ServerParts, request: ApiRequest) -> tuple[list[Stored], int]:
    storage, store = request.target.resource.storage, server.store
    revision, match = revision_of(request), request.query.get("resourceVersionMatch", "")
    if match and not request.query.get("resourceVersion"):
        causes = [
            Cause(
                "FieldValueForbidden",
                "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
                "resourceVersionMatch",
            )
        ]
        raise invalid(About("meta.k8s.io", "ListOptions"), causes)
    if match not in {"", "Exact", "NotOlderThan"}:
        cause = not_supported("resourceVersionMatch", match, ("Exact", "NotOlderThan", ""))
        raise invalid(About("meta.k8s.io", "ListOptions"), [cause])
    if revision > store.revision:
        raise _too_large(revision, store.revision)
    if match == "Exact":
        return store.at(storage, revision), revision
    return store.all(storage), store.revision


def _too_large(revision: int, current: int) -> StatusError:
    cause = Cause("ResourceVersionTooLarge", "Too large resource version")
    return StatusError(
        504, "Timeout", f"Too large resource version: {revision}, current: {current}", None, [cause], 1
    )


def lines(change: StoredChange, wanted: Selection, writer: Encoder) -> Iterator[bytes]:
    """Yield the watch lines of a change.

    An object that enters or leaves the selection is reported as added or deleted.
    """
    was = change.before is not None and wanted.matches(change.before.object)
    now = change.after is not None and wanted.matches(change.after.object)
    if now and change.after is not None:
        yield writer.event("MODIFIED" if was else "ADDED", change.after)
    elif was:
        yield writer.event("DELETED", _left(change))


def _left(change: StoredChange) -> Stored:
    """Return the state in which an object leaves a watch.

    It is the state that last matched, at the new revision.
    """
    if change.after is None or change.before is None:
        return change.last
    before = change.before
    metadata = {**before.object["metadata"], "resourceVersion": str(change.revision)}
    return Stored(before.storage, change.revision, {**before.object, "metadata": metadata}, before.schema)
