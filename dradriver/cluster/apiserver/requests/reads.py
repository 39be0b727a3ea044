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
from dradriver.cluster.apiserver.requests.encoding import Encoder, choose_form, prefers_protobuf
from dradriver.cluster.apiserver.requests.parse import ApiRequest
from dradriver.cluster.apiserver.requests.selectors import (
    FieldRequirement,
    Selection,
    parse_fields,
    parse_labels,
)
from dradriver.cluster.apiserver.status import Cause, StatusError, Subject, bad_request, invalid
from dradriver.cluster.apiserver.storage.store import Stored, StoredChange
from dradriver.cluster.apiserver.validation.field import not_supported


def make_encoder(server: ServerParts, request: ApiRequest) -> Encoder:
    """Return the encoder for the form that the Accept header requests.

    Raises:
        StatusError: 406 if the server supports none of the requested forms.
    """
    resource = request.target.resource
    return Encoder(
        resource,
        choose_form(request.accept),
        _find_printer_columns(server, resource),
        request.query.get("includeObject") or "Metadata",
        verbatim=prefers_protobuf(request.accept),
    )


def _find_printer_columns(server: ServerParts, resource: ServedResource) -> list[Object]:
    if resource.schema is not None or not resource.uid:
        return []
    definition = server.store.get(CRDS, "", f"{resource.plural}.{resource.group}")
    versions = definition.object["spec"]["versions"] if definition is not None else []
    found: Object = next((each for each in versions if each["name"] == resource.version), {})
    return list(found.get("additionalPrinterColumns") or ())


def parse_field_selector(request: ApiRequest) -> tuple[FieldRequirement, ...]:
    """Return the field selector. Its paths are the paths in the stored object.

    Raises:
        StatusError: 400 if selectors do not support a field.
    """
    resource = request.target.resource
    kind = f"{resource.api_version}, Kind={resource.kind}"
    parsed = parse_fields(request.query.get("fieldSelector", ""), resource.selectable, kind)
    return tuple(
        FieldRequirement(resource.selectable.get(each.path, each.path), each.equal, each.value)
        for each in parsed
    )


def parse_selection(request: ApiRequest) -> Selection:
    """Return the selection of a list, watch or deletecollection.

    Raises:
        StatusError: 400 if a selector is malformed.
    """
    labels = parse_labels(request.query.get("labelSelector", ""))
    return Selection(request.target.namespace, labels, parse_field_selector(request))


def parse_revision(request: ApiRequest) -> int:
    """Return the resourceVersion that a read requests; 0 if it requests none.

    Raises:
        StatusError: 400 if the text is not a number.
    """
    text = request.query.get("resourceVersion", "")
    if not text:
        return 0
    if _DIGITS.fullmatch(text):
        return int(text)
    problem = "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
    reason = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {problem}'
    raise bad_request(f"invalid resource version: resourceVersion: {reason}")


_DIGITS = re.compile("[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: the objects, the revision of the list, and the position of the next page."""

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
    """The start of the next page: it comes after the key `start`, at the revision `rv` (-1: the newest)."""

    rv: int
    start: tuple[str, str]
    v: str = "meta.k8s.io/v1"


def read_page(server: ServerParts, request: ApiRequest) -> Page:
    """Return one page of a list.

    Raises:
        StatusError: 410 if the revision of the page is no longer kept; 504 if the revision is in the future.
    """
    wanted = parse_selection(request)
    limit = max(0, request.read_number("limit"))
    if request.query.get("continue"):
        token = _read_token(request.query["continue"])
        (stored, revision), after = _read_rest(server, request, token), token.start
    else:
        stored, revision = _read_current(server, request)
        after = None
    items = [each for each in stored if (after is None or each.key > after) and wanted.matches(each.object)]
    if not limit or len(items) <= limit:
        return Page(items, revision)
    page = items[:limit]
    next_token = _write_token(_Token(revision, page[-1].key))
    return Page(page, revision, next_token, None if wanted.labels or wanted.fields else len(items) - limit)


def _read_rest(server: ServerParts, request: ApiRequest, token: _Token) -> tuple[list[Stored], int]:
    storage, store = request.target.resource.storage, server.store
    if token.rv < 0:
        return store.all(storage), store.revision
    try:
        return store.at(storage, token.rv), token.rv
    except StatusError as error:
        # The other pages are still available, but not consistent with the earlier pages. As in Kubernetes, the
        # error message explains this and contains a token.
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
        reason = "illegal base64 data at input byte 0" if isinstance(error, binascii.Error) else str(error)
        raise bad_request(f"invalid continue token: continue key is not valid: {reason}") from error


def _write_token(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _read_current(server: ServerParts, request: ApiRequest) -> tuple[list[Stored], int]:
    storage, store = request.target.resource.storage, server.store
    revision, match = parse_revision(request), request.query.get("resourceVersionMatch", "")
    if match and not request.query.get("resourceVersion"):
        causes = [
            Cause(
                "FieldValueForbidden",
                "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
                "resourceVersionMatch",
            )
        ]
        raise invalid(Subject("meta.k8s.io", "ListOptions"), causes)
    if match not in {"", "Exact", "NotOlderThan"}:
        cause = not_supported("resourceVersionMatch", match, ("Exact", "NotOlderThan", ""))
        raise invalid(Subject("meta.k8s.io", "ListOptions"), [cause])
    if revision > store.revision:
        raise _too_large_error(revision, store.revision)
    if match == "Exact":
        return store.at(storage, revision), revision
    return store.all(storage), store.revision


def _too_large_error(revision: int, current: int) -> StatusError:
    cause = Cause("ResourceVersionTooLarge", "Too large resource version")
    return StatusError(
        504, "Timeout", f"Too large resource version: {revision}, current: {current}", None, [cause], 1
    )


def encode_change(change: StoredChange, wanted: Selection, writer: Encoder) -> Iterator[bytes]:
    """Yield the watch lines of a change.

    If an object enters or leaves the selection, it is reported as added or deleted.
    """
    was = change.before is not None and wanted.matches(change.before.object)
    now = change.after is not None and wanted.matches(change.after.object)
    if now and change.after is not None:
        yield writer.encode_event("MODIFIED" if was else "ADDED", change.after)
    elif was:
        yield writer.encode_event("DELETED", _last_matching(change))


def _last_matching(change: StoredChange) -> Stored:
    """Return the state to report when an object leaves the selection of a watch.

    The result is the last state that matched the selection, with the revision of the change.
    """
    if change.after is None or change.before is None:
        return change.last
    before = change.before
    metadata = {**before.object["metadata"], "resourceVersion": str(change.revision)}
    return Stored(before.storage, change.revision, {**before.object, "metadata": metadata}, before.schema)
