"""`ResourceHandle`: data from a controller for a kubelet plugin, in the claim's allocation (KEP-3063).

One entry of `status.allocation.devices.config` takes 10,240 bytes of parameters, and a handle may have 16 KiB
of data. So the data is written as base64 in parts. The API server accepts only the same bytes again, so the
parts are written as canonical JSON. Users cannot write the allocation, but the entries of their claims are
copied to it, so only entries with the source `FromClass` are read.
"""

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.classic.names import API_VERSION, MAX_HANDLE_BYTES
from dradriver.model.encoding.codec import Value, canonical, decode
from dradriver.model.resource.claim import AllocationConfig, OpaqueConfig

__all__ = ["KIND", "JoinedHandle", "ResourceHandle", "is_handle", "join_handle", "split_handle"]

KIND: Final = "ResourceHandle"

_PART_CHARACTERS: Final = 9_600
"""Characters of base64 in one part. With the other fields a part stays below 10,240 bytes."""


class ResourceHandle(Value, frozen=True, kw_only=True, omit_defaults=False):
    """One part of a handle, as opaque parameters for the kubelet plugin.

    Attributes:
        api_version, kind: identify the format.
        claim_uid: the UID of the claim. A part of another claim is refused.
        part: the number of the part, from 1.
        parts: the number of all parts.
        shareable: whether several pods may use the claim at the same time.
        data: this part of the data, as base64.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    claim_uid: str = msgspec.field(name="claimUID")
    part: int
    parts: int
    shareable: bool = False
    data: str = ""


@dataclass(frozen=True, slots=True)
class JoinedHandle:
    """A handle that was joined from its parts.

    Attributes:
        data: the data from the controller. It may contain secrets.
        shareable: whether several pods may use the claim at the same time.
    """

    data: bytes = field(repr=False)
    shareable: bool = False


class _Meta(Value, frozen=True):
    api_version: str = ""
    kind: str = ""


def split_handle(
    driver: str, claim_uid: str, data: bytes, *, requests: Sequence[str] = (), shareable: bool = False
) -> list[AllocationConfig]:
    """Return the entries for `status.allocation.devices.config` that carry a handle.

    Args:
        driver: the kubelet plugin that gets the handle.
        claim_uid: the UID of the claim.
        data: the data, at most `names.MAX_HANDLE_BYTES`.
        requests: the requests of the claim to which the handle applies. Empty: all.
        shareable: whether several pods may use the claim at the same time.

    Raises:
        InvalidObjectError: the data is too large.
    """
    if len(data) > MAX_HANDLE_BYTES:
        rule = f"{len(data)} bytes: must be at most {MAX_HANDLE_BYTES} bytes"
        raise InvalidObjectError(f"handle for driver {driver}", [Problem("data", rule)])
    text = base64.b64encode(data).decode()
    texts = [text[start : start + _PART_CHARACTERS] for start in range(0, len(text), _PART_CHARACTERS)] or [""]
    return [
        AllocationConfig(
            source="FromClass",
            requests=list(requests),
            opaque=OpaqueConfig(
                driver,
                msgspec.Raw(
                    canonical(
                        ResourceHandle(
                            claim_uid=claim_uid, part=number, parts=len(texts), shareable=shareable, data=part
                        )
                    )
                ),
            ),
        )
        for number, part in enumerate(texts, 1)
    ]


def is_handle(config: AllocationConfig, driver: str) -> bool:
    """Return whether an entry of an allocation is a part of a handle for a kubelet plugin.

    An entry that users wrote (source `FromClaim`) is never one.
    """
    if config.source != "FromClass" or config.opaque is None or config.opaque.driver != driver:
        return False
    try:
        meta = decode(_Meta, bytes(config.opaque.parameters))
    except InvalidObjectError:
        return False
    return (meta.api_version, meta.kind) == (API_VERSION, KIND)


def join_handle(configs: Iterable[AllocationConfig], driver: str, claim_uid: str) -> JoinedHandle | None:
    """Return the handle for a kubelet plugin; None if there is no handle.

    Args:
        configs: the entries of the allocation that apply to one request.
        driver: the kubelet plugin.
        claim_uid: the UID of the claim that has the allocation.

    Raises:
        InvalidObjectError: a part is of another claim, is missing, is there twice or is not readable; the parts
            differ in `parts` or `shareable`; or the data is too large.
    """
    subject = f"handle for driver {driver}"
    parts = [
        decode(ResourceHandle, bytes(each.opaque.parameters), subject)
        for each in configs
        if is_handle(each, driver) and each.opaque is not None
    ]
    if not parts:
        return None
    if other := next((each.claim_uid for each in parts if each.claim_uid != claim_uid), None):
        raise InvalidObjectError(subject, [Problem("claimUID", f"is {other}, but the claim has {claim_uid}")])
    ordered = sorted(parts, key=lambda each: each.part)
    for name in ("parts", "shareable"):
        if len({getattr(each, name) for each in parts}) > 1:
            raise InvalidObjectError(subject, [Problem(name, "must be the same in all parts")])
    if [each.part for each in ordered] != list(range(1, ordered[0].parts + 1)):
        found = ", ".join(str(each.part) for each in ordered)
        raise InvalidObjectError(subject, [Problem("parts", f"must be 1 to {ordered[0].parts}, not {found}")])
    try:
        data = base64.b64decode("".join(each.data for each in ordered), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidObjectError(subject, [Problem("data", "must be base64")]) from None
    if len(data) > MAX_HANDLE_BYTES:
        rule = f"{len(data)} bytes: must be at most {MAX_HANDLE_BYTES} bytes"
        raise InvalidObjectError(subject, [Problem("data", rule)])
    return JoinedHandle(data, parts[0].shareable)
