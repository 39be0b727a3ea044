"""Check the configuration of objects for controllers that allocate claims (KEP-3063)."""

from collections.abc import Iterator

from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.classic.parameters import read_claim_parameters, read_class_parameters
from dradriver.model.encoding.codec import decode
from dradriver.model.resource.claim import ResourceClaim, ResourceClaimTemplate
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["find_classic_errors", "read_claim"]


def find_classic_errors(kind: str, data: bytes) -> Iterator[Problem]:
    """Yield every error in the entries for a controller, and in the fields that such an entry does not permit.

    Whether all requests of a claim have classes of one controller depends on other objects. It is not checked.

    Args:
        kind: the object's kind. Only DeviceClass, ResourceClaim and ResourceClaimTemplate have such entries.
        data: the object as JSON text, in any API version. An object without the structure of its kind has no
            errors here, because the API server rejects it.
    """
    try:
        device_class = decode(DeviceClass, data) if kind == "DeviceClass" else None
        claim = read_claim(kind, data)
    except InvalidObjectError:
        return
    try:
        if device_class is not None:
            read_class_parameters(device_class)
        if claim is not None:
            read_claim_parameters(claim)
    except InvalidObjectError as error:
        for problem in error.problems:
            yield problem.under("spec") if kind == "ResourceClaimTemplate" else problem


def read_claim(kind: str, data: bytes) -> ResourceClaim | None:
    """Return a claim, or the claim that a template creates; None for another kind.

    Args:
        kind: the object's kind.
        data: the object as JSON text. In a version older than v1, its requests may be missing in the result.

    Raises:
        InvalidObjectError: the object does not have the structure of its kind.
    """
    if kind == "ResourceClaim":
        return decode(ResourceClaim, data)
    if kind == "ResourceClaimTemplate":
        template = decode(ResourceClaimTemplate, data)
        return ResourceClaim(metadata=template.metadata, spec=template.spec.spec)
    return None
