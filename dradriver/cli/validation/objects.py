"""One object of resource.k8s.io against the rules of the API server."""

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
    """An object after the check.

    Attributes:
        problems: broken rules.
        v1: the object as JSON text in the v1 form, None when it could not be read at all.
    """

    problems: list[Problem]
    v1: bytes | None


NAMESPACED: Final = ("ResourceClaim", "ResourceClaimTemplate")
KINDS: Final = ("ResourceSlice", "DeviceClass", *NAMESPACED, "DeviceTaintRule")
_VERSIONS: Final = {"DeviceTaintRule": ("v1", "v1beta2", "v1alpha3")}
"""Versions of kinds that have others; their fields are the same."""


def check(document: Document) -> Checked:
    """What the API server would find wrong with the object, CEL included."""
    # The embedded API server is slow to import, and of all the CLI only this and `up` need it.
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
        text = document.as_v1()  # of a version that is not known as if it were v1
        found += problems(document.kind, text, _cel_refusal)
    except InvalidObjectError as error:
        return Checked([*found, *error.problems], None)
    except msgspec.DecodeError as error:
        return Checked([*found, Problem("", str(error))], None)
    return Checked(found, text)


def check_pod(document: Document) -> list[Problem]:
    """What the API server would find wrong with the resources that a pod asks for; nothing else of it."""
    from dradriver.cluster.rules import pod_resource_problems  # noqa: PLC0415 - as above

    return list(pod_resource_problems(bytes(document.raw)))


def _cel_refusal(expression: str) -> str | None:
    try:
        compile_selector(expression)
    except CompileError as error:
        return str(error)
    return None
