"""Converts stored objects to answers: plain, as a `Table` or as metadata only.

An answer contains one object, a list or a watch event.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dradriver.cluster.apiserver.formats.values import Object, encode
from dradriver.cluster.apiserver.kinds.resources import ServedResource
from dradriver.cluster.apiserver.requests import tables
from dradriver.cluster.apiserver.requests.decoding import to_served
from dradriver.cluster.apiserver.schema import protobuf
from dradriver.cluster.apiserver.status import not_acceptable
from dradriver.cluster.apiserver.storage.store import Stored

PLAIN, TABLE, PARTIAL = "", "Table", "PartialObjectMetadata"
_META = "meta.k8s.io/v1"
_JSON = frozenset({"application/json", "*/*", "application/*", ""})


def choose_form(accept: str) -> str:
    """Return the form that an Accept header requests: the first form that the server supports.

    Raises:
        StatusError: 406 if the server supports none of the forms.
    """
    for clause in accept.split(",") if accept else [""]:
        kind, *parameters = (part.strip() for part in clause.split(";"))
        options = dict(part.split("=", 1) for part in parameters if "=" in part)
        wanted = options.get("as", PLAIN)
        if kind.lower() in _JSON and wanted.removesuffix("List") in {PLAIN, TABLE, PARTIAL}:
            return wanted.removesuffix("List")
    raise not_acceptable("application/json")


def prefers_protobuf(accept: str) -> bool:
    """Return whether a client prefers protobuf, as kubelet and kube-scheduler do."""
    return accept.lstrip().startswith(protobuf.MEDIA_TYPE)


@dataclass(frozen=True, slots=True)
class Encoder:
    """Writes the objects of one resource in one form.

    Attributes:
        resource: the resource as which the objects are served.
        form: `PLAIN`, `TABLE` or `PARTIAL`.
        printer: the printer columns of a custom kind.
        include: the content of table rows: `Metadata`, `Object` or `None`.
        verbatim: whether to write opaque parameters as they are stored, not as Go's JSON encoder does. This is
            for clients that prefer protobuf, to which a real server sends the stored bytes. If such a client
            got re-encoded bytes and wrote them back, the server would reject the parameters as changed.
    """

    resource: ServedResource
    form: str
    printer: Sequence[Object] = ()
    include: str = "Metadata"
    verbatim: bool = False

    def encode_object(self, stored: Stored) -> bytes:
        """Return the JSON of one object."""
        if self.form == TABLE:
            version = {"resourceVersion": str(stored.revision)}
            return encode(self._table([stored], version))
        return self._item(stored)

    def encode_list(self, items: Sequence[Stored], metadata: Object) -> bytes:
        """Return the JSON of a list."""
        if self.form == TABLE:
            return encode(self._table(items, metadata))
        kind = "PartialObjectMetadataList" if self.form == PARTIAL else f"{self.resource.kind}List"
        version = _META if self.form == PARTIAL else self.resource.api_version
        head = encode({"kind": kind, "apiVersion": version, "metadata": metadata})
        return b"".join((head[:-1], b',"items":[', b",".join(map(self._item, items)), b"]}"))

    def encode_event(self, kind: str, stored: Stored) -> bytes:
        """Return one line of a watch."""
        return b"".join((b'{"type":"', kind.encode(), b'","object":', self.encode_object(stored), b"}\n"))

    def encode_bookmark(self, revision: int, *, initial_end: bool) -> bytes:
        """Return a bookmark, which reports progress without an object."""
        metadata: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj: Object = {
            "kind": self.resource.kind,
            "apiVersion": self.resource.api_version,
            "metadata": metadata,
        }
        if self.form == PARTIAL:
            obj |= {"kind": PARTIAL, "apiVersion": _META}
        elif self.form == TABLE:
            obj = tables.build_table(self.resource, [], self.printer, {"resourceVersion": str(revision)})
        return encode({"type": "BOOKMARK", "object": obj}) + b"\n"

    def _item(self, stored: Stored) -> bytes:
        if self.form == PARTIAL:
            return encode(_metadata_only(stored))
        if self.verbatim:
            return encode(to_served(self.resource, stored.object))
        if to_served(self.resource, stored.object) is stored.object:
            return stored.body
        return encode(to_served(self.resource, stored.view))

    def _table(self, items: Sequence[Stored], metadata: Object) -> Object:
        to_row_object: Callable[[Stored], Object] = _metadata_only
        if self.include == "Object":
            to_row_object = self._viewed
        elif self.include == "None":
            to_row_object = _empty_row
        return tables.build_table(
            self.resource, [(each.object, to_row_object(each)) for each in items], self.printer, metadata
        )

    def _viewed(self, stored: Stored) -> Object:
        return to_served(self.resource, stored.view)


def _empty_row(_stored: Stored) -> Object:
    return {}


def _metadata_only(stored: Stored) -> Object:
    return {"kind": PARTIAL, "apiVersion": _META, "metadata": stored.object["metadata"]}
