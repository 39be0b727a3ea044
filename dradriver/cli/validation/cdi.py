"""Checks a CDI spec against the CDI specification."""

from collections.abc import Collection, Iterator
from typing import Final

from dradriver.cli.files import Document
from dradriver.driver.configuration.config_errors import find_errors
from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.cdi import CdiSpec, cdi_problems, is_bind_mount, minimum_version
from dradriver.model.encoding.codec import from_builtins
from dradriver.model.encoding.strict import unknown_fields

__all__ = ["check_cdi"]

_NOT_MODELED: Final = frozenset({"annotations", "intelRdt", "netDevices"})
"""Fields of CDI 1.1.0 that dradriver never writes and does not check."""
VERSIONS: Final = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")


def check_cdi(document: Document) -> Iterator[Problem]:
    """Yield the errors that a container runtime would report for the spec.

    Args:
        document: the CDI spec.
    """
    for path in unknown_fields(CdiSpec, document.body):
        if path.rpartition(".")[2] not in _NOT_MODELED:
            yield Problem(path, "a CDI spec has no such field")
    wrong = find_errors(CdiSpec, document.body)
    yield from wrong
    wrong_fields = [_field_of(problem.path) for problem in wrong]
    try:
        spec = from_builtins(CdiSpec, _without(document.body, wrong_fields))
    except InvalidObjectError:
        return  # a required field is missing or has a wrong type; this is already reported
    for problem in (*cdi_problems(spec), *_mounts(spec), *_version(spec)):
        if not any(field.startswith(problem.path) for field in wrong_fields):
            yield problem


def _field_of(path: str) -> str:
    """Return the field at a path; for a list item, the field that contains the list."""
    return path.partition(" ")[0].rstrip("]0123456789").rstrip("[") if path.endswith("]") else path


def _without(value: object, fields: Collection[str], path: str = "") -> object:
    """Return the decoded JSON without these fields."""
    if isinstance(value, dict):
        inside = {key: (f"{path}.{key}" if path else str(key), item) for key, item in value.items()}
        return {key: _without(item, fields, at) for key, (at, item) in inside.items() if at not in fields}
    if isinstance(value, list):
        return [_without(item, fields, f"{path}[{number}]") for number, item in enumerate(value)]
    return value


def _version(spec: CdiSpec) -> Iterator[Problem]:
    if spec.cdi_version not in VERSIONS:
        yield Problem("cdiVersion", f"{spec.cdi_version!r} is not one of {', '.join(VERSIONS)}")
    elif VERSIONS.index(spec.cdi_version) < VERSIONS.index(needed := minimum_version(spec)):
        yield Problem("cdiVersion", f"{spec.cdi_version} is too old: the fields of the spec need {needed}")


def _mounts(spec: CdiSpec) -> Iterator[Problem]:
    """Yield mounts without a file system type or bind option. CDI allows them, but containers do not start."""
    edits = {"containerEdits": spec.container_edits}
    edits |= {f"devices[{n}].containerEdits": device.container_edits for n, device in enumerate(spec.devices)}
    for path, each in edits.items():
        for index, mount in enumerate(each.mounts):
            if not mount.type and not is_bind_mount(mount):
                rule = "must have a type, or option bind or rbind: containers fail with 'no such device'"
                yield Problem(f"{path}.mounts[{index}].options", rule)
