"""The errors of dradriver: what went wrong, whose mistake it is, and what to do.

Every error that a user can cause derives from `DraError` and prints as one message that names the
object, the field and the rule. Anything else that escapes is a defect of dradriver itself.
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
    """A command, setting or argument can't be used as given."""


class NotFoundError(DraError):
    """Something that was named does not exist: a driver, a file, an object."""


class DriverError(DraError):
    """A driver broke its contract or raised: the author's code is at fault, not the claim."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule of one object.

    Attributes:
        path: the field, as `kubectl explain` writes it: `spec.devices[3].attributes["x"]`.
        rule: what is wrong with it and what is allowed.
    """

    path: str
    rule: str

    def __str__(self) -> str:
        return f"{self.path}: {self.rule}" if self.path else self.rule

    def under(self, prefix: str) -> "Problem":
        """The same problem seen from an outer object: `prefix` is put before the path."""
        separator = "" if not self.path or self.path.startswith("[") else "."
        return Problem(f"{prefix}{separator}{self.path}", self.rule)


class InvalidObjectError(DraError):
    """An object breaks rules; all of them are listed.

    Attributes:
        subject: the object: `ResourceSlice node-1-gpu`.
        problems: every broken rule, never empty.
    """

    def __init__(self, subject: str, problems: Iterable[Problem]) -> None:
        self.subject = subject
        self.problems = tuple(problems)
        super().__init__(f"{subject}: " + "; ".join(map(str, self.problems)))
