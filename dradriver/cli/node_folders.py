"""Finds the folders of a node's drivers, for this machine's kubelet and for the nodes of `dradriver up`."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = [
    "CDI_DIR",
    "PLUGINS_DIR",
    "NodeFolders",
    "default_data_folder",
    "embedded_node_folders",
    "kubelet_folders",
]

PLUGINS_DIR: Final = Path("/var/lib/kubelet/plugins")
CDI_DIR: Final = Path("/var/run/cdi")


def default_data_folder() -> Path:
    """Return the default data folder of `dradriver up`, below `$XDG_DATA_HOME` or `~/.local/share`."""
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "dradriver"


@dataclass(frozen=True, slots=True)
class NodeFolders:
    """The folders of one node.

    Attributes:
        plugins: folder of plugins, with a data directory for each driver.
        cdi: folder of CDI specs; None if unknown.
        node: name of the node in a cluster of `dradriver up`; empty for the kubelet of this machine.
        cluster: data folder of the cluster of `dradriver up`; None for the kubelet.
        is_running: whether the cluster of `dradriver up` is running.
    """

    plugins: Path
    cdi: Path | None
    node: str = ""
    cluster: Path | None = None
    is_running: bool = False

    @property
    def title(self) -> str:
        """The heading of the node in the output."""
        if self.cluster is None:
            return f"kubelet of this machine ({self.plugins})"
        state = "running" if self.is_running else "not running"
        return f"node {self.node} of the cluster in {self.cluster} ({state})"


def kubelet_folders(plugins: Path | None, cdi: Path | None) -> NodeFolders:
    """Return the folders that the options give, or the folders of this machine's kubelet.

    Args:
        plugins: folder of plugins; None for the kubelet's folder.
        cdi: folder of CDI specs. If `cdi` is None and `plugins` is not the kubelet's folder, the folder `cdi`
            beside `plugins` is used, because the specs in `/var/run/cdi` may belong to another node.
    """
    if plugins is None or cdi is not None:
        return NodeFolders(plugins or PLUGINS_DIR, cdi or CDI_DIR)
    if plugins.absolute() == PLUGINS_DIR:
        return NodeFolders(plugins, CDI_DIR)
    beside = plugins.absolute().parent / "cdi"
    return NodeFolders(plugins, beside if beside.is_dir() else None)


def embedded_node_folders(data: Path) -> Iterator[NodeFolders]:
    """Yield the folders of each node of a cluster of `dradriver up`.

    Args:
        data: data folder of the cluster.
    """
    is_running = _is_locked(data / "lock")
    for node in sorted(data.glob("nodes/*")):
        yield NodeFolders(node / "plugins", node / "cdi", node.name, data, is_running)


def _is_locked(lock: Path) -> bool:
    """Return whether the process whose ID is in the lock file holds the lock.

    This function does not take the lock itself. Otherwise, if a cluster starts at this moment, the start would
    fail.
    """
    try:
        holder, inode = lock.read_text().strip(), lock.stat().st_ino
        held = [line.split() for line in Path("/proc/locks").read_text().splitlines() if " FLOCK " in line]
    except OSError:
        return False
    return any(len(each) > 5 and each[4] == holder and each[5].endswith(f":{inode}") for each in held)
