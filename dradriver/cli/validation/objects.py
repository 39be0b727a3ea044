"""Checks one object of resource.k8s.io against the rules of the API server."""

from dataclasses import dataclass
from typing import Final

import msgspec

from dradriver.cel import CompileError, compile_selector
from dradriver.cli.files import Document
from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.encoding.versions import GROUP, VERSIONS

__all__ = ["KINDS", "NAMESPACED", "ObjectCheck", "check", "check_pod"]


@dataclass(frozen=True, slots=True)
class ObjectCheck:
    """Result of the check of an object.

    Attributes:
        problems: violated rules.
        v1: JSON text of the object in the version v1; None if the object cannot be read.
    """

    problems: list[Problem]
    v1: bytes | None


NAMESPACED: Final = ("ResourceClaim", "ResourceClaimTemplate")
KINDS: Final = ("ResourceSlice", "DeviceClass", *NAMESPACED, "DeviceTaintRule")
_VERSIONS: Final = {"DeviceTaintRule": ("v1", "v1beta2", "v1alpha3")}
"""API versions of the kinds that have other versions than the default.

All these versions have the same fields.
"""


def check(document: Document) -> ObjectCheck:
    """Return the errors that the API server would report for the object, including CEL.

    Args:
        document: an object of one of `KINDS`.
    """
    # The embedded API server is slow to import, and only the commands `validate` and `up` need it.
    from dradriver.cluster.rules import find_problems  # noqa: PLC0415

    errors: list[Problem] = []
    group, _, version = (document.api_version or "").partition("/")
    versions = _VERSIONS.get(document.kind, VERSIONS)
    if group != GROUP or version not in versions:
        known = ", ".join(f"{GROUP}/{known}" for known in versions)
        given = document.api_version
        rule = f"is missing: must be one of {known}" if given is None else f"{given!r} is not one of {known}"
        errors.append(Problem("apiVersion", rule))
    try:
        text = document.as_v1()  # an object of an unknown version is read as v1
        errors += find_problems(document.kind, text, _cel_refusal)
    except InvalidObjectError as error:
        return ObjectCheck([*errors, *error.problems], None)
    except msgspec.DecodeError as error:
        return ObjectCheck([*errors, Problem("", str(error))], None)
    return ObjectCheck(errors, text)


def check_pod(document: Document) -> list[Problem]:
    """Return the errors that the API server would report for the pod's claims and resources.

    Other fields are not checked.

    Args:
        document: the pod.
    """
    from dradriver.cluster.rules import find_pod_device_problems  # noqa: PLC0415 - as above

    version = document.api_version
    given = "is missing" if version is None else f"{version!r} is wrong"
    errors = [] if version == "v1" else [Problem("apiVersion", f"{given}: must be v1")]
    return [*errors, *find_pod_device_problems(bytes(document.raw))]


def _cel_refusal(expression: str) -> str | None:
    try:
        compile_selector(expression)
    except CompileError as error:
        return str(error)
    return None
