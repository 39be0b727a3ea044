"""Checks one object of resource.k8s.io against the rules of the API server."""

from dataclasses import dataclass
from typing import Final

import msgspec

from dradriver.cel import CompileError, compile_selector
from dradriver.cli.files import Document
from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.encoding.versions import GROUP, VERSIONS

__all__ = ["KINDS", "NAMESPACED", "Checked", "check", "check_pod"]


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of the check of an object.

    Attributes:
        problems: violated rules.
        v1: JSON text of the object in the v1 form; None if it could not be read.
    """

    problems: list[Problem]
    v1: bytes | None


NAMESPACED: Final = ("ResourceClaim", "ResourceClaimTemplate")
KINDS: Final = ("ResourceSlice", "DeviceClass", *NAMESPACED, "DeviceTaintRule")
_VERSIONS: Final = {"DeviceTaintRule": ("v1", "v1beta2", "v1alpha3")}
"""API versions of kinds whose versions differ from the usual ones. Their fields are the same."""


def check(document: Document) -> Checked:
    """Return the problems that the API server would find in the object, CEL included."""
    # The embedded API server is slow to import, and only this command and `up` need it.
    from dradriver.cluster.rules import problems  # noqa: PLC0415

    found: list[Problem] = []
    group, _, version = (document.api_version or "").partition("/")
    versions = _VERSIONS.get(document.kind, VERSIONS)
    if group != GROUP or version not in versions:
        known = ", ".join(f"{GROUP}/{known}" for known in versions)
        given = document.api_version
        rule = f"is missing: one of {known}" if given is None else f"{given!r} is not one of {known}"
        found.append(Problem("apiVersion", rule))
    try:
        text = document.as_v1()  # an unknown version is read as v1
        found += problems(document.kind, text, _cel_refusal)
    except InvalidObjectError as error:
        return Checked([*found, *error.problems], None)
    except msgspec.DecodeError as error:
        return Checked([*found, Problem("", str(error))], None)
    return Checked(found, text)


def check_pod(document: Document) -> list[Problem]:
    """Return the problems that the API server would find in the pod's resources.

    Other fields are not checked.
    """
    from dradriver.cluster.rules import pod_resource_problems  # noqa: PLC0415 - as above

    return list(pod_resource_problems(bytes(document.raw)))


def _cel_refusal(expression: str) -> str | None:
    try:
        compile_selector(expression)
    except CompileError as error:
        return str(error)
    return None
