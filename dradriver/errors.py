"""Base classes of all errors that dradriver reports to users.

Every error that a user can cause derives from `DraError`. It prints as one message that names the object, the
field and the rule. Any other exception that escapes is a defect of dradriver itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = [
    "DraError",
    "DriverError",
    "InvalidObjectError",
    "NotFoundError",
    "Problem",
    "UsageError",
]


class DraError(Exception):
    """Base of all errors whose message is meant for a user."""


class UsageError(DraError):
    """A command, setting or argument is not valid."""


class NotFoundError(DraError):
    """A named driver, file or object does not exist."""


class DriverError(DraError):
    """A driver broke its contract or raised. The fault is in the driver's code, not in the claim."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule of one object.

    Attributes:
        path: the field, as `kubectl explain` writes it: `spec.devices[3].attributes["x"]`.
        rule: the broken rule, and the values that are allowed.
    """

    path: str
    rule: str

    def __str__(self) -> str:
        return f"{self.path}: {self.rule}" if self.path else self.rule

    def under(self, prefix: str) -> "Problem":
        """Return the same problem as a problem of an outer object, with `prefix` before the path."""
        separator = "" if not self.path or self.path.startswith("[") else "."
        return Problem(f"{prefix}{separator}{self.path}", self.rule)


class InvalidObjectError(DraError):
    """An object breaks rules. The error lists all of them.

    Attributes:
        subject: the object: `ResourceSlice node-1-gpu`.
        problems: every broken rule, never empty.
    """

    def __init__(self, subject: str, problems: Iterable[Problem]) -> None:
        self.subject = subject
        self.problems = tuple(problems)
        super().__init__(f"{subject}: " + "; ".join(map(str, self.problems)))
