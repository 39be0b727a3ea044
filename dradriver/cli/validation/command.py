"""The command `dradriver validate`: reads files and prints findings."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import click

from dradriver.admission import Known, known_configs, mistakes_in
from dradriver.cli.files import Document, Reading, file_options, read_files
from dradriver.cli.terminal.errors import FAILED
from dradriver.cli.terminal.output import document as print_document
from dradriver.cli.terminal.output import output_option
from dradriver.cli.validation.cdi import check_cdi
from dradriver.cli.validation.extended import extended_warnings
from dradriver.cli.validation.findings import Finding, problems_of
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

_NO_DRIVERS: Final[Known] = {}


@click.command()
@file_options()
@click.option(
    "--driver",
    "drivers",
    multiple=True,
    metavar="NAME",
    help="Also check opaque configuration as this driver reads it, installed or module:Class; may be repeated.",
)
@output_option
@click.pass_context
def validate(ctx: click.Context, files: Sequence[str], drivers: Sequence[str], output: str) -> None:
    """Check slices, classes, claims and CDI specs offline.

    Templates of claims, and DeviceTaintRules too; of pods, only the resources that their containers ask for.
    Other kinds are skipped. Says what an API server would refuse, what no allocator could use, and what may
    go wrong later (warnings).
    Exits with 1 when anything is invalid.
    """
    reading = read_files(files)
    found = sorted(findings(reading, known_configs(map(load_driver, drivers))), key=_place(reading))
    errors = sum(finding.severity == "error" for finding in found)
    if output == "table":
        for finding in found:
            click.echo(str(finding))
        click.echo(_summary(reading, errors, len(found) - errors), err=True)
    else:
        listed = [builtins(finding) for finding in found]
        answer = {"apiVersion": "dradriver/v1", "kind": "Validation", "valid": not errors, "findings": listed}
        print_document(answer, output)
    if errors:
        ctx.exit(FAILED)


def _place(reading: Reading) -> Callable[[Finding], tuple[int, int]]:
    """Return a sort key by file, in the given order, and line."""
    files = dict.fromkeys(
        [*(document.file for document in reading.documents), *(e.file for e in reading.errors)]
    )
    order = {file: number for number, file in enumerate(files)}
    return lambda finding: (order[finding.file], finding.line or 0)


def findings(reading: Reading, known: Known = _NO_DRIVERS) -> Iterator[Finding]:
    """Yield all errors and warnings. `known` has the configuration types of drivers."""
    for error in reading.errors:
        for problem in error.problems:
            yield Finding(error.file, error.document, error.line, "", problem)
    yield from _twice(reading.documents)
    members: list[Member] = []
    for document in reading.documents:
        yield from _check_document(document, members, known)
    yield from check_pools(members)
    yield from extended_warnings(reading.documents)


def _twice(documents: Iterable[Document]) -> Iterator[Finding]:
    """Yield findings for objects of one kind and name, because the later one would replace the earlier."""
    seen: dict[tuple[str, str, str], Document] = {}
    for document in documents:
        if document.kind not in KINDS or not document.name or document.name.endswith("*"):
            continue
        first = seen.setdefault((document.kind, _namespace(document), document.name), document)
        if first is not document:
            line = first.line("metadata.name")
            place = first.file if line is None else f"{first.file}:{line}"
            rule = f"{document.kind} {document.name} is there twice, first in {place}"
            yield from problems_of(document, [Problem("metadata.name", rule)])


def _namespace(document: Document) -> str:
    return document.namespace or (DEFAULT_NAMESPACE if document.kind in NAMESPACED else "")


def _check_document(document: Document, members: list[Member], known: Known) -> Iterator[Finding]:
    if document.kind == "CDI spec":
        yield from problems_of(document, check_cdi(document))
    elif not document.kind:
        yield from problems_of(document, [Problem("kind", "the object has no kind (and is no CDI spec)")])
    elif document.kind == "Pod":
        yield from problems_of(document, check_pod(document))
    elif document.kind in KINDS:
        checked = check(document)
        yield from problems_of(document, checked.problems)
        if document.kind != "ResourceSlice":
            yield from problems_of(document, selector_warnings(document), "warning")
        if checked.v1 is not None:
            sound = not checked.problems
            yield from _check_values(document, checked.v1, members, sound=sound)
            yield from _check_configs(document, checked.v1, known, sound=sound)


def _check_configs(document: Document, v1: bytes, known: Known, *, sound: bool) -> Iterator[Finding]:
    try:
        yield from problems_of(document, mistakes_in(document.kind, v1, known))
    except InvalidObjectError as error:
        if sound:
            yield from problems_of(document, error.problems)


def _check_values(document: Document, v1: bytes, members: list[Member], *, sound: bool) -> Iterator[Finding]:
    try:
        yield from problems_of(document, parameter_warnings(document, v1), "warning")
        if document.kind == "ResourceSlice":
            members.append(Member(document, decode(ResourceSlice, v1), sound))
    except InvalidObjectError as error:
        # A slice or claim that the server rejects cannot be decoded either. That was reported before.
        if sound:
            yield from problems_of(document, error.problems)


def _summary(reading: Reading, errors: int, warnings: int) -> str:
    checked = [d for d in reading.documents if d.kind in KINDS or d.kind == "CDI spec"]
    pods = sum(d.kind == "Pod" for d in reading.documents)
    skipped = len(reading.documents) - len(checked) - pods
    parts = [f"{len(checked)} object(s) checked", f"{errors} error(s)", f"{warnings} warning(s)"]
    if pods:
        parts.append(f"of {pods} pod(s) the resources alone")
    if skipped:
        parts.append(f"{skipped} of other kinds skipped")
    return ", ".join(parts)
