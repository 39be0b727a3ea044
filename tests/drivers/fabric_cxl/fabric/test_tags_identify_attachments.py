"""The tag of an attachment, and who owns an object."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dradriver_fabric_cxl.fabric import AttachmentIdentity, parse_identity

IDENTITIES = st.builds(AttachmentIdentity, *[st.text(max_size=70)] * 5)
ONE = AttachmentIdentity("7c2e", "fabric", "a-node-1-1gi-0", "2026-11-22T21:00:00Z", "share")


@given(IDENTITIES)
def test_an_identity_is_read_back(identity: AttachmentIdentity) -> None:
    assert parse_identity(identity.tag, identity.description) == identity


@given(IDENTITIES, IDENTITIES)
def test_different_identities_have_different_tags(one: AttachmentIdentity, other: AttachmentIdentity) -> None:
    assert (one.tag == other.tag) == (one == other)


@pytest.mark.parametrize("field", ["claim", "pool", "device", "allocated_at", "share"])
def test_each_field_changes_the_tag(field: str) -> None:
    assert msgspec.structs.replace(ONE, **{field: "another"}).tag != ONE.tag


def test_a_tag_is_short_enough_for_a_name() -> None:
    assert len(ONE.tag) == 36
    assert ONE.tag.removeprefix("dra-").isalnum()


@pytest.mark.parametrize(
    ("name", "description"),
    [
        (None, None),
        ("Memory chunk 1", ONE.description),
        (ONE.tag, None),
        (ONE.tag, "a chunk"),
        (ONE.tag, ONE.description[:40]),
        (ONE.tag, '{"claim": 1}'),
        (ONE.tag, ONE.description.replace("7c2e", "7c2f")),
        (ONE.tag.upper(), ONE.description),
    ],
)
def test_an_object_with_another_name_or_description_is_somebody_elses(
    name: object, description: object
) -> None:
    assert parse_identity(name, description) is None
