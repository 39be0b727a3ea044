"""One object of a file, and where in the file its fields are."""

from dataclasses import dataclass
from functools import cached_property

import msgspec

from dradriver.cli.files.places import FieldPlaces, json_places, yaml_places
from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.encoding.versions import GROUP, VERSIONS, v1_from_older

__all__ = ["Document", "Source"]


class _Header(msgspec.Struct, rename="camel"):
    """What tells objects apart; the rest is skipped."""

    api_version: object = None
    kind: object = None
    cdi_version: object = msgspec.UNSET
    metadata: object = None


@dataclass(frozen=True)
class Source:
    """A file as it was read.

    Attributes:
        file: its name as it was given; `<stdin>` for `-`.
        content: its bytes.
        is_json: whether it holds one JSON object.
    """

    file: str
    content: bytes
    is_json: bool

    @cached_property
    def places(self) -> list[FieldPlaces]:
        """Where the fields of its documents are; looked up when something is wrong with one."""
        return json_places(self.content) if self.is_json else yaml_places(self.content)


@dataclass(frozen=True)
class Document:
    """One object of a file.

    Attributes:
        source: the file.
        index: the document's number in the file, from 1.
        raw: the object's JSON text as a client would send it: the file's own bytes for JSON, compact for YAML.
        item: its place among the `items` of a list; None when the document is the object.
    """

    source: Source
    index: int
    raw: bytes | msgspec.Raw
    item: int | None = None

    @property
    def file(self) -> str:
        """The file's name."""
        return self.source.file

    @property
    def is_json(self) -> bool:
        """Whether the file holds JSON."""
        return self.source.is_json

    @cached_property
    def _header(self) -> _Header:
        return msgspec.json.decode(self.raw, type=_Header)

    @cached_property
    def body(self) -> dict[str, object]:
        """The decoded object."""
        return msgspec.json.decode(self.raw, type=dict[str, object])

    @property
    def api_version(self) -> str | None:
        """Its `apiVersion`; None when it has none."""
        found = self._header.api_version
        return None if found is None else str(found)

    @property
    def is_cdi(self) -> bool:
        """Whether it is a CDI spec."""
        return self._header.cdi_version is not msgspec.UNSET

    @property
    def kind(self) -> str:
        """Its kind, `CDI spec` for what has a `cdiVersion`, empty when it has none."""
        kind = self._header.kind
        return "CDI spec" if self.is_cdi else kind if isinstance(kind, str) else ""

    @property
    def name(self) -> str:
        """`metadata.name`, `generateName` followed by `*`, or the kind of a CDI spec."""
        if self.is_cdi:
            return str(self._header.kind or "")
        prefix = self._metadata("generateName")
        return self._metadata("name") or (f"{prefix}*" if prefix else "")

    @property
    def namespace(self) -> str:
        """`metadata.namespace`, empty when it has none."""
        return self._metadata("namespace")

    def _metadata(self, field: str) -> str:
        metadata = self._header.metadata
        return str(metadata.get(field) or "") if isinstance(metadata, dict) else ""

    def as_v1(self) -> bytes:
        """The JSON text; of an older version of `resource.k8s.io`, that of the v1 object that means the same.

        Raises:
            InvalidObjectError: it is not shaped like an object of that version.
        """
        group, _, version = (self.api_version or "").partition("/")
        raw = bytes(self.raw)
        if group != GROUP or version not in VERSIONS or version == VERSIONS[0]:
            return raw
        try:
            return v1_from_older(self.kind, raw, version)
        except msgspec.DecodeError as error:
            raise InvalidObjectError(self.place, [Problem("", str(error))]) from None

    @property
    def place(self) -> str:
        """`file: document 2 (ResourceSlice node-1-gpu)`."""
        what = " ".join(part for part in (self.kind, self.name) if part)
        return f"{self.file}: document {self.index}" + (f" ({what})" if what else "")

    def line(self, path: str) -> int | None:
        """The line of a field, or of the innermost field around it that is there; from 1.

        None behind a document of the file that can't be read.
        """
        places = self.source.places
        if self.index > len(places):
            return None
        return places[self.index - 1].line(path if self.item is None else f"items[{self.item}].{path}")
