"""What an update has changed in an overview."""

from dataclasses import dataclass

from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.overview.values import RecentChange

__all__ = ["OverviewUpdate"]


@dataclass(frozen=True, slots=True)
class OverviewUpdate:
    """What an update has changed in the overview.

    Attributes:
        nodes: names of the nodes that were added, changed or removed.
        reaches: driver and pool of the reaches that were added, changed or removed.
        waiting: whether `Overview.waiting` changed.
        problems: whether `Overview.problems` changed.
        changes: the new entries of `Overview.changes`, the oldest first.
        is_complete: whether nothing is left to compute; see `OverviewTracker.update`.
    """

    nodes: frozenset[str] = frozenset()
    reaches: frozenset[PoolKey] = frozenset()
    waiting: bool = False
    problems: bool = False
    changes: tuple[RecentChange, ...] = ()
    is_complete: bool = True

    def __bool__(self) -> bool:
        """Return whether anything changed."""
        return bool(self.nodes or self.reaches or self.waiting or self.problems or self.changes)

    def then(self, later: "OverviewUpdate") -> "OverviewUpdate":
        """Return this update and a later one as one update.

        Args:
            later: the later update.
        """
        return OverviewUpdate(
            self.nodes | later.nodes,
            self.reaches | later.reaches,
            self.waiting or later.waiting,
            self.problems or later.problems,
            (*self.changes, *later.changes),
            later.is_complete,
        )
