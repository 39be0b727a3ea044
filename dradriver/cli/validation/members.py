"""The slices of a pool and the documents they came from."""

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
    """A slice and the document it came from; `sound`: the server's own rules hold."""

    document: Document
    slice: ResourceSlice
    sound: bool

    @property
    def spec(self) -> ResourceSliceSpec:
        """What the slice says."""
        return self.slice.spec

    def names(self, field: str) -> list[str]:
        """The names of its `devices` or `sharedCounters`."""
        listed = self.spec.devices if field == "devices" else self.spec.shared_counters
        return [each.name for each in listed]


@dataclass(frozen=True, slots=True)
class Located:
    """A field of one document."""

    document: Document
    path: str


def located(members: Sequence[Member], problem: Problem) -> Located:
    """Where a problem of the pool is: at the last thing of its name, which is the one too many."""
    match = _NAMED.fullmatch(problem.path)
    if match is not None:
        field, name, rest = match.groups()
        for member in reversed(members):
            names = member.names(field)
            if name in names:
                index = len(names) - 1 - names[::-1].index(name)
                return Located(member.document, f"spec.{field}[{index}]{rest}")
    return Located(members[0].document, f"spec.{problem.path}" if problem.path else "spec")
