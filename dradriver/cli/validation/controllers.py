"""Checks claims that a controller allocates (KEP-3063): entries of classes and claims, and both together."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from dradriver.admission import find_classic_errors, read_claim
from dradriver.cli.files import Document
from dradriver.cli.validation.findings import Finding, problems_of
from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.classic.controlled_claims import resolve
from dradriver.model.classic.names import GROUP
from dradriver.model.classic.parameters import read_claim_parameters
from dradriver.model.encoding.codec import decode
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.opaque import OPAQUE_KINDS

__all__ = ["controller_findings"]

_WRITERS: Final = {
    "PodSchedulingContext": "the scheduler and the controllers create it",
    "ControllerAllocation": "a controller creates it",
}


def controller_findings(documents: Iterable[Document]) -> Iterator[Finding]:
    """Yield errors and warnings about classes of controllers and their claims.

    Args:
        documents: all objects of the files.
    """
    listed = list(documents)
    classes: dict[str, DeviceClass] = {}
    for document in listed:
        if document.kind in OPAQUE_KINDS:
            errors = list(find_classic_errors(document.kind, bytes(document.raw)))
            yield from problems_of(document, errors)
            if document.kind == "DeviceClass" and not errors:
                classes |= _read_class(document)
        elif document.kind in _WRITERS and (document.api_version or "").startswith(f"{GROUP}/"):
            rule = f"must not be in a manifest: {_WRITERS[document.kind]}"
            yield from problems_of(document, [Problem("kind", rule)], "warning")
    for document in listed:
        claim = _read_claim(document)
        if claim is not None:
            yield from _check_claim(document, claim, classes)


def _read_class(document: Document) -> dict[str, DeviceClass]:
    try:
        return {document.name: decode(DeviceClass, document.as_v1())}
    except InvalidObjectError:
        return {}  # the error is already reported


def _read_claim(document: Document) -> ResourceClaim | None:
    """Return the claim of a document without errors of its own; None if it has none."""
    if any(find_classic_errors(document.kind, bytes(document.raw))):
        return None
    try:
        return read_claim(document.kind, document.as_v1())
    except InvalidObjectError:
        return None


def _check_claim(
    document: Document, claim: ResourceClaim, classes: Mapping[str, DeviceClass]
) -> Iterator[Finding]:
    prefix = "spec" if document.kind == "ResourceClaimTemplate" else ""
    try:
        controlled = resolve(claim, classes)
    except InvalidObjectError as error:
        problems = (problem.under(prefix) if prefix else problem for problem in error.problems)
        yield from problems_of(document, problems)
        return
    names = _list_classes(claim)
    if controlled is None and read_claim_parameters(claim) and names <= classes.keys():
        path = f"{prefix}.spec.devices.config" if prefix else "spec.devices.config"
        rule = f"has a ControllerClaim, but {_join(names)} of a controller: the entry has no effect"
        yield from problems_of(document, [Problem(path, rule)], "warning")


def _list_classes(claim: ResourceClaim) -> set[str]:
    names = set()
    for request in claim.spec.devices.requests:
        names |= {each.device_class_name for each in request.first_available}
        if request.exactly is not None:
            names.add(request.exactly.device_class_name)
    return names


def _join(names: set[str]) -> str:
    listed = " and ".join(sorted(names))
    return f"{listed} are not classes" if len(names) > 1 else f"{listed} is not a class"
