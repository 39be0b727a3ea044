"""Read a node plugin's state from another process, for `dradriver node status`."""

from dataclasses import dataclass
from pathlib import Path

from dradriver.node.state.database import FILE_NAME, read_rows
from dradriver.node.state.records import PreparedClaimRecord

__all__ = ["PluginStatus", "node_status"]


@dataclass(frozen=True, slots=True)
class PluginStatus:
    """The content of a plugin's data directory.

    Attributes:
        data_dir: the directory.
        claims: the recorded claims, oldest first.
        set_aside: unreadable state files that were replaced, oldest first.
    """

    data_dir: Path
    claims: list[PreparedClaimRecord]
    set_aside: list[Path]


def node_status(data_dir: Path) -> PluginStatus:
    """Read the prepared state of a running or stopped plugin, without changes; blocks on the disk.

    Args:
        data_dir: the plugin's data directory (`PluginConfig.data_dir`).

    Returns:
        The recorded claims, and the unreadable state files that were replaced.

    Raises:
        StateError: the state file does not exist or cannot be read.
    """
    paths = data_dir.glob(f"{FILE_NAME}.corrupt-*")
    set_aside = sorted(path for path in paths if not path.name.endswith(("-wal", "-shm", "-journal")))
    return PluginStatus(data_dir, read_rows(data_dir / FILE_NAME), set_aside)
