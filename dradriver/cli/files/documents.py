"""One object of a file, with the lines of its fields."""

from dataclasses import dataclass
from functools import cached_property

import msgspec

from dradriver.cli.files.field_lines import FieldLines, json_field_lines, yaml_field_lines
from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.encoding.versions import GROUP, VERSIONS, v1_from_older

__all__ = ["Document", "Source"]


class _Header(msgspec.Struct, rename="camel"):
    """The fields that identify an object. All other fields are skipped."""

    api_version: object = None
    kind: object = None
    cdi_version: object = msgspec.UNSET
    metadata: object = None


@dataclass(frozen=True)
class Source:
    """The content of a file.

    Attributes:
        file: name of the file as given; `<stdin>` for `-`.
        content: bytes of the file.
        is_json: whether the file contains one JSON object.
    """

    file: str
    content: bytes
    is_json: bool

    @cached_property
    def field_lines(self) -> list[FieldLines]:
        """Line numbers of the fields of the file's documents. They are computed when a problem is reported."""
        return json_field_lines(self.content) if self.is_json else yaml_field_lines(self.content)


@dataclass(frozen=True)
class Document:
    """One object of a file.

    Attributes:
        source: the file.
        index: number of the document in the file, from 1.
        raw: JSON text of the object as a client would send it: for a JSON file, the bytes of the file; for a
            YAML file, compact JSON.
        item: index of the object in the `items` of a list; None if the document is the object itself.
    """

    source: Source
    index: int
    raw: bytes | msgspec.Raw
    item: int | None = None

    @property
    def file(self) -> str:
        """Name of the file."""
        return self.source.file

    @property
    def is_json(self) -> bool:
        """Whether the file contains JSON."""
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
        """The object's `apiVersion`; None if the object has none."""
        version = self._header.api_version
        return None if version is None else str(version)

    @property
    def is_cdi(self) -> bool:
        """Whether the object is a CDI spec."""
        return self._header.cdi_version is not msgspec.UNSET

    @property
    def kind(self) -> str:
        """The object's kind; `CDI spec` for an object with a `cdiVersion`; empty if it has neither."""
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
        """`metadata.namespace`; empty if the object has no namespace."""
        return self._metadata("namespace")

    def _metadata(self, field: str) -> str:
        metadata = self._header.metadata
        return str(metadata.get(field) or "") if isinstance(metadata, dict) else ""

    def as_v1(self) -> bytes:
        """Return the JSON text. If the object has an older version of `resource.k8s.io`, it is converted to v1.

        Raises:
            InvalidObjectError: the object does not have the structure that its version requires.
        """
        group, _, version = (self.api_version or "").partition("/")
        raw = bytes(self.raw)
        if group != GROUP or version not in VERSIONS or version == VERSIONS[0]:
            return raw
        try:
            return v1_from_older(self.kind, raw, version)
        except msgspec.DecodeError as error:
            raise InvalidObjectError(self.location, [Problem("", str(error))]) from None

    @property
    def location(self) -> str:
        """Location for messages: `file: document 2 (ResourceSlice node-1-gpu)`."""
        what = " ".join(part for part in (self.kind, self.name) if part)
        return f"{self.file}: document {self.index}" + (f" ({what})" if what else "")

    def line(self, path: str) -> int | None:
        """Return the line of a field, or of the innermost existing field around it.

        Args:
            path: path in the object, such as `spec.devices[0].name`.

        Returns:
            The line, from 1. None if an earlier document of the file cannot be read.
        """
        field_lines = self.source.field_lines
        if self.index > len(field_lines):
            return None
        return field_lines[self.index - 1].line(path if self.item is None else f"items[{self.item}].{path}")
