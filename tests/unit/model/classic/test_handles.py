"""Handles: data from a controller for a kubelet plugin (KEP-3063, ResourceHandle)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dradriver.errors import InvalidObjectError
from dradriver.model.classic.handles import JoinedHandle, is_handle, join_handle, split_handle
from dradriver.model.classic.names import MAX_HANDLE_BYTES
from dradriver.model.encoding.codec import canonical
from dradriver.model.resource.claim import AllocationConfig, OpaqueConfig

DRIVER = "driver.example.com"
UID = "6f1c0f5e-5a44-4a5c-9d52-5a60d0f6a7b1"
MAX_PARAMETERS = 10_240
"""Maximum size of opaque parameters, in bytes (`OpaqueParametersMaxLength`)."""


@given(
    st.binary(max_size=300) | st.integers(0, MAX_HANDLE_BYTES).map(lambda size: b"\xfb" * size), st.booleans()
)
def test_a_handle_of_at_most_16_kib_reaches_its_plugin_unchanged(data: bytes, shareable: bool) -> None:
    parts = split_handle(DRIVER, UID, data, shareable=shareable)

    assert join_handle(reversed(parts), DRIVER, UID) == JoinedHandle(data, shareable)
    for part in parts:
        assert part.opaque is not None
        raw = bytes(part.opaque.parameters)
        assert len(raw) <= MAX_PARAMETERS
        assert canonical(msgspec.json.decode(raw)) == raw


def test_a_full_handle_takes_three_parts() -> None:
    assert len(split_handle(DRIVER, UID, b"x" * MAX_HANDLE_BYTES)) == 3


def test_a_larger_handle_is_refused() -> None:
    with pytest.raises(InvalidObjectError, match="16385 bytes: must be at most 16384 bytes"):
        split_handle(DRIVER, UID, b"x" * (MAX_HANDLE_BYTES + 1))


def test_without_a_handle_there_is_no_data() -> None:
    assert join_handle([], DRIVER, UID) is None
    assert join_handle(split_handle("other.example.com", UID, b"x"), DRIVER, UID) is None


def test_a_handle_that_a_user_wrote_into_the_claim_is_not_read() -> None:
    (part,) = split_handle(DRIVER, UID, b"x")

    assert not is_handle(replace(part, source="FromClaim"), DRIVER)


def test_configuration_that_is_no_handle_is_left_to_the_plugin() -> None:
    config = OpaqueConfig(DRIVER, msgspec.Raw(b'{"apiVersion":"driver.example.com/v1","kind":"Config"}'))

    assert not is_handle(AllocationConfig(source="FromClass", opaque=config), DRIVER)


def test_a_handle_of_another_claim_is_refused() -> None:
    with pytest.raises(InvalidObjectError, match=f"claimUID: is other, but the claim has {UID}"):
        join_handle(split_handle(DRIVER, "other", b"x"), DRIVER, UID)


@pytest.mark.parametrize("kept", [slice(1, None), slice(0, 2), slice(0, 0)])
def test_a_missing_part_is_an_error(kept: slice) -> None:
    parts = split_handle(DRIVER, UID, b"x" * MAX_HANDLE_BYTES)
    several = parts[kept] or [parts[0], parts[0], parts[1]]

    with pytest.raises(InvalidObjectError, match="parts: must be 1 to 3, not "):
        join_handle(several, DRIVER, UID)


def test_parts_of_two_handles_are_an_error() -> None:
    first, *_ = split_handle(DRIVER, UID, b"x" * MAX_HANDLE_BYTES)
    (other,) = split_handle(DRIVER, UID, b"y")

    with pytest.raises(InvalidObjectError, match="parts: must be the same in all parts"):
        join_handle([other, first], DRIVER, UID)
    with pytest.raises(InvalidObjectError, match="parts: must be 1 to 1, not 1, 1"):
        join_handle([other, *split_handle(DRIVER, UID, b"x")], DRIVER, UID)


def test_a_part_of_a_longer_handle_does_not_complete_a_handle() -> None:
    first, _, _ = split_handle(DRIVER, UID, b"x" * MAX_HANDLE_BYTES)
    _, second = split_handle(DRIVER, UID, b"x" * 8000)

    with pytest.raises(InvalidObjectError, match="parts: must be the same in all parts"):
        join_handle([first, second], DRIVER, UID)


def test_parts_that_differ_in_shareable_are_an_error() -> None:
    first, _ = split_handle(DRIVER, UID, b"x" * 8000)
    _, second = split_handle(DRIVER, UID, b"x" * 8000, shareable=True)

    with pytest.raises(InvalidObjectError, match="shareable: must be the same in all parts"):
        join_handle([first, second], DRIVER, UID)


def test_the_data_of_a_handle_is_in_no_repr() -> None:
    assert "secret" not in repr(join_handle(split_handle(DRIVER, UID, b"secret"), DRIVER, UID))
