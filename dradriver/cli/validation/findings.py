"""One finding of a check."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dradriver.cli.files import Document
from dradriver.cli.validation.corrections import hint_for
from dradriver.errors import Problem

__all__ = ["Finding", "Severity", "problems_of"]

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    Attributes:
        file, document: the file, and the number of the document in the file; 0 for the whole file.
        line: line of the field, or of the innermost existing object around the field; None if unknown.
        object: kind and name of the object.
        problem: the field and the violated rule.
        severity: an error makes the object unusable; a warning predicts a later failure.
        hint: proposed correction; empty if no correction is known.
    """

    file: str
    document: int
    line: int | None
    object: str
    problem: Problem
    severity: Severity = "error"
    hint: str = ""

    def __str__(self) -> str:
        location = self.file if self.line is None else f"{self.file}:{self.line}"
        unknown = self.line is None and self.document
        parts = [location, f"document {self.document}" if unknown else "", self.object]
        label = "" if self.severity == "error" else "warning: "
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{': '.join(filter(None, parts))}: {label}{self.problem}{hint}"


def problems_of(
    document: Document, problems: Iterable[Problem], severity: Severity = "error"
) -> Iterator[Finding]:
    """Yield findings about one document.

    Args:
        document: the object.
        problems: fields and violated rules.
        severity: severity of all findings.
    """
    name = " ".join(part for part in (document.kind, document.name) if part)
    for problem in problems:
        line, hint = document.line(problem.path), hint_for(document, problem)
        yield Finding(document.file, document.index, line, name, problem, severity, hint)
