"""Folders of a node's drivers, for a kubelet and for the nodes of `dradriver up`."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["CDI_DIR", "PLUGINS_DIR", "NodeFolders", "default_data", "folders_of_up", "kubelets_folders"]

PLUGINS_DIR: Final = Path("/var/lib/kubelet/plugins")
CDI_DIR: Final = Path("/var/run/cdi")


def default_data() -> Path:
    """Return the default data folder of `dradriver up`."""
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "dradriver"


@dataclass(frozen=True, slots=True)
class NodeFolders:
    """The folders of one node.

    Attributes:
        plugins: folder of plugins, with a data directory for each driver.
        cdi: folder of CDI specs; None if unknown.
        node: name of the node in a cluster of `dradriver up`; empty for the kubelet of this machine.
        cluster: data folder of that cluster; None for the kubelet.
        runs: whether that cluster runs.
    """

    plugins: Path
    cdi: Path | None
    node: str = ""
    cluster: Path | None = None
    runs: bool = False

    @property
    def title(self) -> str:
        """A heading for people."""
        if self.cluster is None:
            return f"kubelet of this machine ({self.plugins})"
        state = "runs" if self.runs else "does not run"
        return f"node {self.node} of the cluster in {self.cluster}, which {state}"


def kubelets_folders(plugins: Path | None, cdi: Path | None) -> NodeFolders:
    """Return the folders that the user named, else those of this machine's kubelet.

    If the user named only a folder of plugins, CDI specs are looked for beside it. Those in `/var/run/cdi` may
    belong to another node.
    """
    if plugins is None or cdi is not None:
        return NodeFolders(plugins or PLUGINS_DIR, cdi or CDI_DIR)
    if plugins.absolute() == PLUGINS_DIR:
        return NodeFolders(plugins, CDI_DIR)
    beside = plugins.absolute().parent / "cdi"
    return NodeFolders(plugins, beside if beside.is_dir() else None)


def folders_of_up(data: Path) -> Iterator[NodeFolders]:
    """Yield the folders of each node of the cluster that `dradriver up` keeps in this data folder."""
    runs = _is_locked(data / "lock")
    for node in sorted(data.glob("nodes/*")):
        yield NodeFolders(node / "plugins", node / "cdi", node.name, data, runs)


def _is_locked(lock: Path) -> bool:
    """Return whether the process whose number is in the lock of a data folder holds the lock.

    This function does not take the lock, because a starting cluster would then fail to take it.
    """
    try:
        holder, inode = lock.read_text().strip(), lock.stat().st_ino
        held = [line.split() for line in Path("/proc/locks").read_text().splitlines() if " FLOCK " in line]
    except OSError:
        return False
    return any(len(each) > 5 and each[4] == holder and each[5].endswith(f":{inode}") for each in held)
