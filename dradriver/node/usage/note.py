"""The usage note of a node: its ConfigMap, encoded and decoded (pure).

| key           | value                                                                              |
|---------------|------------------------------------------------------------------------------------|
| `version`     | "1"; another version is unreadable                                                 |
| `node`        | name of the node                                                                   |
| `bootID`      | the boot in which the note was written                                             |
| `attachments` | JSON list: claim UID, pool, device, share ID and allocation time of devices in use |
| `report`      | JSON object: the driver's `NodeReport`                                             |
| `writes`      | number of writes that changed it on purpose; see `UsageNote.writes`                |
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from dradriver.driver.health import NodeReport
from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.core.config_map import ConfigMap
from dradriver.model.encoding.codec import Value, decode, encode

__all__ = [
    "UsageEntry",
    "UsageNote",
    "decode_note",
    "encode_note",
    "find_other_driver",
    "note_label",
    "note_name",
]

T = TypeVar("T")

_VERSION: Final = "1"
_LABEL: Final = "/usage-note"


class UsageEntry(Value, frozen=True, order=True, kw_only=True):
    """A device that a claim uses on the node, or may use.

    Attributes:
        claim_uid: UID of the claim.
        pool, device, share_id: identify the device.
        allocated: the time of the allocation (RFC 3339). Empty: unknown, so the entry counts for each
            allocation of the claim.
    """

    claim_uid: str = msgspec.field(name="claimUID")
    pool: str
    device: str
    share_id: str = msgspec.field(default="", name="shareID")
    allocated: str = ""

    def covers(self, other: "UsageEntry") -> bool:
        """Return whether the use of `other` cannot be excluded while this entry is in the note."""
        times = {self.allocated, other.allocated}
        return msgspec.structs.replace(self, allocated=other.allocated) == other and (
            len(times) == 1 or "" in times
        )


@dataclass(frozen=True, slots=True)
class UsageNote:
    """The content of a node's ConfigMap.

    Attributes:
        node: name of the node.
        boot_id: the boot in which the note was written.
        entries: the attachments in use.
        report: the driver's report.
        writes: a counter. A writer that counts it up changes the note, although nothing else has changed. So
            a write that another process has begun earlier fails.
    """

    node: str
    boot_id: str
    entries: Collection[UsageEntry] = ()
    report: NodeReport = field(default_factory=NodeReport)
    writes: int = 0

    def names(self, wanted: UsageEntry) -> bool:
        """Return whether the note has an entry for this attachment."""
        return any(entry.covers(wanted) for entry in self.entries)


def note_name(driver: str, node: str) -> str:
    """Return the name of a node's ConfigMap. An admission policy computes it from the node in the token.

    Args:
        driver: the driver's name.
        node: the node's name.
    """
    return f"{driver}-{node}"


def note_label(driver: str) -> tuple[str, str]:
    """Return key and value of the label that all ConfigMaps of a driver have."""
    return f"{driver}{_LABEL}", "true"


def find_other_driver(config_map: ConfigMap, driver: str) -> str:
    """Return the other driver whose note this ConfigMap is; empty if there is none.

    Driver `a` on node `b-c` and driver `a-b` on node `c` have one name of a note.
    """
    found = (key.removesuffix(_LABEL) for key in config_map.metadata.labels if key.endswith(_LABEL))
    return next((each for each in found if each != driver), "")


def encode_note(note: UsageNote) -> dict[str, str]:
    """Return the `data` of the ConfigMap. Equal notes have equal data."""
    return {
        "version": _VERSION,
        "node": note.node,
        "bootID": note.boot_id,
        "attachments": encode(sorted(set(note.entries))).decode(),
        "report": encode(note.report).decode(),
        "writes": str(note.writes),
    }


def decode_note(config_map: ConfigMap) -> UsageNote:
    """Return the content of a ConfigMap.

    Raises:
        InvalidObjectError: the content is not a usage note. The message names the ConfigMap and the field.
    """
    data, subject = config_map.data, f"ConfigMap {config_map.metadata.namespace}/{config_map.metadata.name}"
    required = ("version", "node", "bootID", "attachments", "report")
    if problems := [Problem(f"data.{key}", "is required") for key in required if not data.get(key)]:
        raise InvalidObjectError(subject, problems)
    if data["version"] != _VERSION:
        raise InvalidObjectError(
            subject, [Problem("data.version", f"must be {_VERSION}, not {data['version']!r}")]
        )
    return UsageNote(
        node=data["node"],
        boot_id=data["bootID"],
        entries=frozenset(_decode(list[UsageEntry], data, "attachments", subject)),
        report=_decode(NodeReport, data, "report", subject),
        writes=int(text) if (text := data.get("writes", "")).isdecimal() else 0,
    )


def _decode(wanted: type[T], data: dict[str, str], key: str, subject: str) -> T:
    try:
        return decode(wanted, data[key], subject)
    except InvalidObjectError as error:
        raise InvalidObjectError(subject, [each.under(f"data.{key}") for each in error.problems]) from error
