"""The slices of a pool, with the documents that contain them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dradriver.cli.files import Document
from dradriver.errors import Problem
from dradriver.model.resource.slices import ResourceSlice, ResourceSliceSpec

__all__ = ["Located", "Member", "located"]

_NAMED: Final = re.compile(r"(devices|sharedCounters)\[([^\]]*)\](.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Member:
    """A slice with the document that contains it.

    Attributes:
        sound: whether the slice satisfies the server's own rules.
    """

    document: Document
    slice: ResourceSlice
    sound: bool

    @property
    def spec(self) -> ResourceSliceSpec:
        """The spec of the slice."""
        return self.slice.spec

    def names(self, field: str) -> list[str]:
        """Return the names of its `devices` or `sharedCounters`."""
        listed = self.spec.devices if field == "devices" else self.spec.shared_counters
        return [each.name for each in listed]


@dataclass(frozen=True, slots=True)
class Located:
    """A field of one document."""

    document: Document
    path: str


def located(members: Sequence[Member], problem: Problem) -> Located:
    """Return the place of a pool's problem: the last item with its name, because that is the repeated one."""
    match = _NAMED.fullmatch(problem.path)
    if match is not None:
        field, name, rest = match.groups()
        for member in reversed(members):
            names = member.names(field)
            if name in names:
                index = len(names) - 1 - names[::-1].index(name)
                return Located(member.document, f"spec.{field}[{index}]{rest}")
    return Located(members[0].document, f"spec.{problem.path}" if problem.path else "spec")
