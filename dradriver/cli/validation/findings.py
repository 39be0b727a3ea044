"""What a check found."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dradriver.cli.files import Document
from dradriver.errors import Problem

__all__ = ["Finding", "Severity", "problems_of"]

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    Attributes:
        file, document: where: the file and the number of the document in it (0: the whole file).
        object: kind and name.
        problem: field and rule.
        severity: an error makes the object unusable; a warning says what may go wrong later.
    """

    file: str
    document: int
    object: str
    problem: Problem
    severity: Severity = "error"

    def __str__(self) -> str:
        what = f" ({self.object})" if self.object else ""
        where = f"{self.file}: document {self.document}{what}" if self.document else self.file
        label = "" if self.severity == "error" else "warning: "
        return f"{where}: {label}{self.problem}"


def problems_of(
    document: Document, problems: Iterable[Problem], severity: Severity = "error"
) -> Iterator[Finding]:
    """Findings about one document."""
    what = " ".join(part for part in (document.kind, document.name) if part)
    for problem in problems:
        yield Finding(document.file, document.index, what, problem, severity)
