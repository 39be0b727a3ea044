"""Checks an object without a running server, with the rules that the API server applies to a create."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from dradriver.cluster.apiserver.formats.values import Object
from dradriver.cluster.apiserver.schema.decode import TypeMismatchError, conform, parse
from dradriver.cluster.apiserver.schema.types import get_fields
from dradriver.cluster.apiserver.strategies.devices import default_claim
from dradriver.cluster.apiserver.validation.claims import (
    check_claim_spec,
    check_claim_status,
    check_device_class,
    check_taint_rule,
)
from dradriver.cluster.apiserver.validation.devices import CelCheck
from dradriver.cluster.apiserver.validation.field import Causes
from dradriver.cluster.apiserver.validation.metadata import check_new_metadata
from dradriver.cluster.apiserver.validation.names import check_subdomain
from dradriver.cluster.apiserver.validation.pod_claims import check_pod_claims
from dradriver.cluster.apiserver.validation.resources import check_container_amounts
from dradriver.cluster.apiserver.validation.slices import check_slice
from dradriver.errors import Problem

__all__ = ["KINDS", "find_pod_device_problems", "find_problems", "list_known_fields"]

_STEP: Final = re.compile(r"[^.\[\]]+")
_DEVICE_FIELDS: Final = re.compile(r"spec\.(resourceClaims\[|(?:initC|c)ontainers\[\d+\]\.resources\.)")
"""The fields of a pod about devices and resources."""
_INDEX: Final = re.compile(r"\[([^\]]*)\]")


def find_problems(kind: str, text: bytes, cel_check: CelCheck | None = None) -> Iterator[Problem]:
    """Yield the rules that a `resource.k8s.io/v1` object violates, and the unknown fields.

    Args:
        kind: one of `KINDS`.
        text: the object as JSON.
        cel_check: returns why a CEL expression is invalid; None: only the length of expressions is checked.

    Raises:
        msgspec.DecodeError: the text is not JSON.
    """
    value = parse(text, f"resource.{kind}")
    if not isinstance(value, dict):
        yield Problem("", "must be a JSON object")
        return
    mismatches: list[TypeMismatchError] = []
    obj, unknown = conform(f"resource.{kind}", value, mismatches=mismatches)
    yield from _to_problems(mismatches)
    for message in unknown:
        path = message.removeprefix('unknown field "').removesuffix('"')
        yield Problem(path, f"{kind} of resource.k8s.io/v1 has no such field")
    metadata = obj.setdefault("metadata", {})
    generated = metadata.get("generateName")
    named = metadata if metadata.get("name") or not generated else {**metadata, "name": f"{generated}x"}
    for cause in (*check_new_metadata(named, check_subdomain), *_RULES[kind](obj, cel_check)):
        if not _is_consequence(cause.field, mismatches):
            yield Problem(cause.field, cause.message)


def _to_problems(mismatches: Iterable[TypeMismatchError]) -> Iterator[Problem]:
    for error in mismatches:
        yield Problem(error.path, str(error).removeprefix("json: "))


def _is_consequence(field: str, mismatches: Iterable[TypeMismatchError]) -> bool:
    """Return whether a violation may be only a consequence of a wrong type, which is reported already.

    A value of a wrong type is left out before the rules are checked, so a rule may find it missing. This is
    possible if the rule's field is the left-out value, is inside it, or is the object around it.
    """
    here = _normalize_path(field)
    return any(
        here in {path, _normalize_path(error.owner)} or here.startswith(f"{path}.")
        for error in mismatches
        for path in (_normalize_path(error.path),)
    )


def _normalize_path(path: str) -> str:
    return _INDEX.sub(r".\1", path)


def find_pod_device_problems(text: bytes) -> Iterator[Problem]:
    """Yield the rules that the claims of a pod and the resources of its containers violate.

    Args:
        text: the pod as JSON. Unknown fields are reported only in claims and resources, because a pod can have
            fields that the embedded API server does not model.

    Raises:
        msgspec.DecodeError: the text is not a JSON object.
    """
    mismatches: list[TypeMismatchError] = []
    pod, unknown = conform("core.Pod", msgspec.json.decode(text, type=dict[str, object]), mismatches=mismatches)
    yield from _to_problems(mismatches)
    for message in unknown:
        path = message.removeprefix('unknown field "').removesuffix('"')
        if _DEVICE_FIELDS.match(path):
            yield Problem(path, "Pod of v1 has no such field")
    spec = pod.get("spec") or {}
    for cause in check_pod_claims(spec):
        if not _is_consequence(cause.field, mismatches):
            yield Problem(cause.field, cause.message)
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            path = f"spec.{field}[{index}].resources"
            for cause in check_container_amounts(container.get("resources") or {}, path):
                if not _is_consequence(cause.field, mismatches):
                    yield Problem(cause.field, cause.message)


def list_known_fields(kind: str, path: str) -> list[str]:
    """Return the known fields of the object that contains an unknown field.

    Args:
        kind: the object's kind: `Pod` or one of `KINDS`. Other kinds have no known fields.
        path: path of the unknown field, as in the results of `find_problems`.
    """
    if kind not in {*KINDS, "Pod"}:
        return []
    here = get_fields("core.Pod" if kind == "Pod" else f"resource.{kind}")
    *owners, _ = _STEP.findall(path)
    at = None
    for step in owners:
        if at is not None and at.element is not None:
            at = at.element
        elif step in here:
            at = here[step].type
        else:
            return []
        if at.kind == "struct":
            here, at = get_fields(at.struct), None
    return [] if at is not None else list(here)


def _check_slice(obj: Object, _cel_check: CelCheck | None) -> Causes:
    return check_slice(obj, None)


def _check_class(obj: Object, cel_check: CelCheck | None) -> Causes:
    return check_device_class(obj, None, cel_check)


def _check_claim(obj: Object, cel_check: CelCheck | None) -> Causes:
    causes = _check_spec(obj, "spec", cel_check)
    return causes + (check_claim_status(obj, {**obj, "status": {}}) if obj.get("status") else [])


def _check_template(obj: Object, cel_check: CelCheck | None) -> Causes:
    return _check_spec(obj.get("spec") or {}, "spec.spec", cel_check)


def _check_taint_rule(obj: Object, _cel_check: CelCheck | None) -> Causes:
    return check_taint_rule(obj)


def _check_spec(owner: Object, path: str, cel_check: CelCheck | None) -> Causes:
    spec = owner.get("spec") or {}
    default_claim(spec)
    return check_claim_spec(spec, path, cel_check)


_RULES: Final[dict[str, Callable[[Object, CelCheck | None], Causes]]] = {
    "ResourceSlice": _check_slice,
    "DeviceClass": _check_class,
    "ResourceClaim": _check_claim,
    "ResourceClaimTemplate": _check_template,
    "DeviceTaintRule": _check_taint_rule,
}
KINDS: Final = tuple(_RULES)
"""The kinds for which `find_problems` has rules."""
