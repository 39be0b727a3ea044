"""The command `dradriver validate`: reads files and prints findings."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import click

from dradriver.admission import ConfigClasses, find_config_errors, known_configs
from dradriver.cli.files import Document, Reading, file_options, read_files
from dradriver.cli.terminal.errors import FAILED
from dradriver.cli.terminal.output import document as print_document
from dradriver.cli.terminal.output import output_option
from dradriver.cli.validation.cdi import check_cdi
from dradriver.cli.validation.controllers import controller_findings
from dradriver.cli.validation.extended import extended_warnings
from dradriver.cli.validation.findings import Finding, problems_of
from dradriver.cli.validation.kinds import find_misspelled_kind
from dradriver.cli.validation.members import Member
from dradriver.cli.validation.objects import KINDS, NAMESPACED, check, check_pod
from dradriver.cli.validation.parameters import parameter_warnings
from dradriver.cli.validation.pools import check_pools
from dradriver.cli.validation.selectors import selector_warnings
from dradriver.cli.world import DEFAULT_NAMESPACE
from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.encoding.codec import builtins, decode
from dradriver.model.resource.slices import ResourceSlice
from dradriver.runner import load_driver

__all__ = ["findings", "validate"]

_NO_DRIVERS: Final[ConfigClasses] = {}


@click.command()
@file_options()
@click.option(
    "--driver",
    "drivers",
    multiple=True,
    metavar="NAME",
    help="Also check opaque configuration for this driver, an installed one or module:Class; can be repeated.",
)
@output_option
@click.pass_context
def validate(ctx: click.Context, files: Sequence[str], drivers: Sequence[str], output: str) -> None:
    """Check slices, classes, claims and CDI specs in files.

    Also checks ResourceClaimTemplates, DeviceTaintRules, and the resources of pods' containers. Other kinds are
    skipped. An error is a field that the API server would reject, or a pool that no allocator can use. A
    warning predicts a later failure. The exit code is 1 if there are errors.
    """
    reading = read_files(files)
    listed = sorted(findings(reading, known_configs(map(load_driver, drivers))), key=_sort_key(reading))
    errors = sum(finding.severity == "error" for finding in listed)
    if output == "table":
        for finding in listed:
            click.echo(str(finding))
        click.echo(_summary(reading, errors, len(listed) - errors), err=True)
    else:
        values = [builtins(finding) for finding in listed]
        answer = {"apiVersion": "dradriver/v1", "kind": "Validation", "valid": not errors, "findings": values}
        print_document(answer, output)
    if errors:
        ctx.exit(FAILED)


def _sort_key(reading: Reading) -> Callable[[Finding], tuple[int, int]]:
    """Return a function that gives the sort key of a finding: first the given order of files, then the line."""
    files = dict.fromkeys(
        [*(document.file for document in reading.documents), *(e.file for e in reading.errors)]
    )
    order = {file: number for number, file in enumerate(files)}
    return lambda finding: (order[finding.file], finding.line or 0)


def findings(reading: Reading, known: ConfigClasses = _NO_DRIVERS) -> Iterator[Finding]:
    """Yield all errors and warnings.

    Args:
        reading: the files.
        known: the configuration types of drivers.
    """
    for error in reading.errors:
        for problem in error.problems:
            yield Finding(error.file, error.document, error.line, "", problem)
    yield from _find_duplicates(reading.documents)
    members: list[Member] = []
    for document in reading.documents:
        yield from _check_document(document, members, known)
    yield from check_pools(members)
    yield from extended_warnings(reading.documents)
    yield from controller_findings(reading.documents)


def _find_duplicates(documents: Iterable[Document]) -> Iterator[Finding]:
    """Yield findings for objects with the same kind and name, because the later replaces the earlier."""
    seen: dict[tuple[str, str, str], Document] = {}
    for document in documents:
        if document.kind not in KINDS or not document.name or document.name.endswith("*"):
            continue
        first = seen.setdefault((document.kind, _namespace(document), document.name), document)
        if first is not document:
            line = first.line("metadata.name")
            location = first.file if line is None else f"{first.file}:{line}"
            rule = f"duplicate {document.kind} {document.name}, first defined in {location}"
            yield from problems_of(document, [Problem("metadata.name", rule)])


def _namespace(document: Document) -> str:
    return document.namespace or (DEFAULT_NAMESPACE if document.kind in NAMESPACED else "")


def _check_document(document: Document, members: list[Member], known: ConfigClasses) -> Iterator[Finding]:
    if document.kind == "CDI spec":
        yield from problems_of(document, check_cdi(document))
    elif not document.kind:
        yield from problems_of(document, [Problem("kind", "is missing, and the object is not a CDI spec")])
    elif document.kind == "Pod":
        yield from problems_of(document, check_pod(document))
    elif problem := find_misspelled_kind(document):
        yield from problems_of(document, [problem])
    elif document.kind in KINDS:
        checked = check(document)
        yield from problems_of(document, checked.problems)
        if document.kind != "ResourceSlice":
            yield from problems_of(document, selector_warnings(document), "warning")
        if checked.v1 is not None:
            is_valid = not checked.problems
            yield from _check_values(document, checked.v1, members, is_valid=is_valid)
            yield from _check_configs(document, checked.v1, known, is_valid=is_valid)


def _check_configs(document: Document, v1: bytes, known: ConfigClasses, *, is_valid: bool) -> Iterator[Finding]:
    try:
        yield from problems_of(document, find_config_errors(document.kind, v1, known))
    except InvalidObjectError as error:
        if is_valid:
            yield from problems_of(document, error.problems)


def _check_values(document: Document, v1: bytes, members: list[Member], *, is_valid: bool) -> Iterator[Finding]:
    try:
        yield from problems_of(document, parameter_warnings(document, v1), "warning")
        if document.kind == "ResourceSlice":
            members.append(Member(document, decode(ResourceSlice, v1), is_valid))
    except InvalidObjectError as error:
        # If the server rejects a slice or claim, it cannot be decoded here. The rejection is already reported.
        if is_valid:
            yield from problems_of(document, error.problems)


def _summary(reading: Reading, errors: int, warnings: int) -> str:
    checked = [d for d in reading.documents if d.kind in KINDS or d.kind == "CDI spec"]
    pods = sum(d.kind == "Pod" for d in reading.documents)
    skipped = len(reading.documents) - len(checked) - pods
    parts = [f"{len(checked)} object(s) checked", f"{errors} error(s)", f"{warnings} warning(s)"]
    if pods:
        parts.append(f"resources of {pods} pod(s) checked")
    if skipped:
        parts.append(f"{skipped} object(s) of other kinds skipped")
    return ", ".join(parts)
