"""The API server's rules without a server: the answer to a create of one object."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from dradriver.cluster.apiserver.formats.values import Object
from dradriver.cluster.apiserver.schema.decode import TypeMismatchError, conform, parse
from dradriver.cluster.apiserver.schema.types import struct
from dradriver.cluster.apiserver.strategies.devices import default_claim
from dradriver.cluster.apiserver.validation.claims import claim_spec, claim_status, device_class, taint_rule
from dradriver.cluster.apiserver.validation.devices import CelCheck
from dradriver.cluster.apiserver.validation.field import Causes
from dradriver.cluster.apiserver.validation.metadata import create
from dradriver.cluster.apiserver.validation.names import subdomain
from dradriver.cluster.apiserver.validation.resources import container_amounts
from dradriver.cluster.apiserver.validation.slices import resource_slice
from dradriver.errors import Problem

__all__ = ["KINDS", "known_fields", "pod_resource_problems", "problems"]

_STEP: Final = re.compile(r"[^.\[\]]+")
_INDEX: Final = re.compile(r"\[([^\]]*)\]")


def problems(kind: str, text: bytes, cel_check: CelCheck | None = None) -> Iterator[Problem]:
    """Yield the broken rules of a `resource.k8s.io/v1` object, unknown fields included.

    Args:
        kind: one of `KINDS`.
        text: the object as JSON.
        cel_check: rejects CEL expressions; None checks their length only.

    Raises:
        msgspec.DecodeError: the text is not JSON.
    """
    value = parse(text, f"resource.{kind}")
    if not isinstance(value, dict):
        yield Problem("", "a JSON object is wanted")
        return
    mismatches: list[TypeMismatchError] = []
    obj, unknown = conform(f"resource.{kind}", value, mismatches=mismatches)
    yield from _of_types(mismatches)
    for message in unknown:
        path = message.removeprefix('unknown field "').removesuffix('"')
        yield Problem(path, f"{kind} of resource.k8s.io/v1 has no such field")
    metadata = obj.setdefault("metadata", {})
    generated = metadata.get("generateName")
    named = metadata if metadata.get("name") or not generated else {**metadata, "name": f"{generated}x"}
    for cause in (*create(named, subdomain), *_RULES[kind](obj, cel_check)):
        if not _follows(cause.field, mismatches):
            yield Problem(cause.field, cause.message)


def _of_types(mismatches: Iterable[TypeMismatchError]) -> Iterator[Problem]:
    for error in mismatches:
        yield Problem(error.place, str(error).removeprefix("json: "))


def _follows(field: str, mismatches: Iterable[TypeMismatchError]) -> bool:
    """Return whether a rule may be broken only because a value of a wrong type was left out.

    That is possible at the place of the value, inside it, and in the object around it.
    """
    here = _dotted(field)
    places = [_dotted(error.place) for error in mismatches]
    return any(
        place in {here, f"{here}.{place.rpartition('.')[2]}"} or here.startswith(f"{place}.")
        for place in places
    )


def _dotted(path: str) -> str:
    return _INDEX.sub(r".\1", path)


def pod_resource_problems(text: bytes) -> Iterator[Problem]:
    """Yield the broken rules of containers' resources: names, amounts, and required limits.

    Raises:
        msgspec.DecodeError: the text is not a JSON object.
    """
    mismatches: list[TypeMismatchError] = []
    pod, _ = conform("core.Pod", msgspec.json.decode(text, type=dict[str, object]), mismatches=mismatches)
    yield from _of_types(mismatches)
    spec = pod.get("spec") or {}
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            path = f"spec.{field}[{index}].resources"
            for cause in container_amounts(container.get("resources") or {}, path):
                if not _follows(cause.field, mismatches):
                    yield Problem(cause.field, cause.message)


def known_fields(kind: str, path: str) -> list[str]:
    """Return the known fields beside an unknown one.

    Args:
        kind: the object's kind; a kind that is not one of `KINDS` has no known fields.
        path: the unknown field, as `problems` names it.
    """
    if kind not in KINDS:
        return []
    here = struct(f"resource.{kind}")
    *owners, _ = _STEP.findall(path)
    at = None
    for step in owners:
        if at is not None and at.element is not None:
            at = at.element
        elif step in here.fields:
            at = here.fields[step].type
        else:
            return []
        if at.kind == "struct":
            here, at = struct(at.struct), None
    return [] if at is not None else list(here.fields)


def _slice(obj: Object, _cel_check: CelCheck | None) -> Causes:
    return resource_slice(obj, None)


def _class(obj: Object, cel_check: CelCheck | None) -> Causes:
    return device_class(obj, None, cel_check)


def _claim(obj: Object, cel_check: CelCheck | None) -> Causes:
    causes = _claim_spec(obj, "spec", cel_check)
    return causes + (claim_status(obj, {**obj, "status": {}}) if obj.get("status") else [])


def _template(obj: Object, cel_check: CelCheck | None) -> Causes:
    return _claim_spec(obj.get("spec") or {}, "spec.spec", cel_check)


def _taint_rule(obj: Object, _cel_check: CelCheck | None) -> Causes:
    return taint_rule(obj, None)


def _claim_spec(owner: Object, path: str, cel_check: CelCheck | None) -> Causes:
    spec = owner.get("spec") or {}
    default_claim(spec)
    return claim_spec(spec, path, cel_check)


_RULES: Final[dict[str, Callable[[Object, CelCheck | None], Causes]]] = {
    "ResourceSlice": _slice,
    "DeviceClass": _class,
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _template,
    "DeviceTaintRule": _taint_rule,
}
KINDS: Final = tuple(_RULES)
"""The kinds that have rules here."""
