"""The slices of a pool, with the documents that contain them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dradriver.cli.files import Document
from dradriver.errors import Problem
from dradriver.model.resource.slices import ResourceSlice, ResourceSliceSpec

__all__ = ["Location", "Member", "locate"]

_NAMED: Final = re.compile(r"(devices|sharedCounters)\[([^\]]*)\](.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Member:
    """A slice with the document that contains it.

    Attributes:
        is_valid: whether the API server would accept the slice.
    """

    document: Document
    slice: ResourceSlice
    is_valid: bool

    @property
    def spec(self) -> ResourceSliceSpec:
        """The spec of the slice."""
        return self.slice.spec

    def names(self, field: str) -> list[str]:
        """Return the names of the slice's devices or counter sets.

        Args:
            field: `devices` or `sharedCounters`.
        """
        listed = self.spec.devices if field == "devices" else self.spec.shared_counters
        return [each.name for each in listed]


@dataclass(frozen=True, slots=True)
class Location:
    """A field of one document.

    Attributes:
        document: the slice.
        path: path of the field in the slice.
    """

    document: Document
    path: str


def locate(members: Sequence[Member], problem: Problem) -> Location:
    """Return the location of a pool's problem.

    If several items have the name in the problem's path, the location is the last of them, which is the
    duplicate.

    Args:
        members: slices of the pool.
        problem: a problem whose path refers to the pool.
    """
    match = _NAMED.fullmatch(problem.path)
    if match is not None:
        field, name, rest = match.groups()
        for member in reversed(members):
            names = member.names(field)
            if name in names:
                index = len(names) - 1 - names[::-1].index(name)
                return Location(member.document, f"spec.{field}[{index}]{rest}")
    return Location(members[0].document, f"spec.{problem.path}" if problem.path else "spec")
