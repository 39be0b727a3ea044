"""The content of a usage note."""

import pytest
from msgspec.structs import replace

from dradriver.driver import NodeReport
from dradriver.errors import InvalidObjectError
from dradriver.model.core.config_map import ConfigMap
from dradriver.model.core.meta import ObjectMeta
from dradriver.node.usage.note import UsageEntry, UsageNote, decode_note, encode_note, note_name

ENTRY = UsageEntry(claim_uid="uid-1", pool="fabric", device="memory-0", allocated="2026-01-01T00:00:01Z")
NOTE = UsageNote("node-1", "boot-1", frozenset({ENTRY}), NodeReport("no window", {"memory-0": "gone"}))


def stored(**changes: str) -> ConfigMap:
    data = {**encode_note(NOTE), **changes}
    metadata = ObjectMeta(name=note_name("cxl.example.com", "node-1"), namespace="drivers")
    return ConfigMap(metadata=metadata, data={key: text for key, text in data.items() if text})


def test_a_note_is_read_as_it_was_written() -> None:
    assert decode_note(stored()) == NOTE


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"bootID": ""}, "data.bootID: is required"),
        ({"version": "2"}, "data.version: must be 1, not '2'"),
        ({"attachments": "[{}]"}, "data.attachments"),
        ({"attachments": '[{"claimUID": "u", "pool": 7, "device": "d"}]'}, "data.attachments[0].pool"),
        ({"report": '{"problem": 7}'}, "data.report.problem"),
    ],
)
def test_another_content_is_rejected_with_object_and_field(changes: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidObjectError) as raised:
        decode_note(stored(**changes))
    assert "ConfigMap drivers/cxl.example.com-node-1: " in str(raised.value)
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("change", "is_named"),
    [
        ({}, True),
        ({"allocated": ""}, True),
        ({"allocated": "2026-01-01T00:00:02Z"}, False),
        ({"claim_uid": "uid-2"}, False),
        ({"share_id": "share"}, False),
    ],
)
def test_an_unknown_time_counts_for_each_allocation(change: dict[str, str], *, is_named: bool) -> None:
    assert NOTE.names(replace(ENTRY, **change)) is is_named
