"""Read a node plugin's state from another process, for `dradriver node status`."""

from dataclasses import dataclass
from pathlib import Path

from dradriver.node.state.database import FILE_NAME, read_only
from dradriver.node.state.records import PreparedClaimRecord

__all__ = ["NodeReport", "node_status"]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The records in a plugin's data directory.

    Attributes:
        data_dir: the directory.
        claims: the claims on this node, oldest first.
        set_aside: unreadable state files that were replaced, oldest first.
    """

    data_dir: Path
    claims: list[PreparedClaimRecord]
    set_aside: list[Path]


def node_status(data_dir: Path) -> NodeReport:
    """Read the prepared state of a running or stopped plugin; blocks on the disk, changes nothing.

    Raises:
        StateError: there is no state, or it cannot be read.
    """
    found = data_dir.glob(f"{FILE_NAME}.corrupt-*")
    set_aside = sorted(path for path in found if not path.name.endswith(("-wal", "-shm", "-journal")))
    return NodeReport(data_dir, read_only(data_dir / FILE_NAME), set_aside)
