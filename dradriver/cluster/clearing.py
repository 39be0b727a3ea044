"""Removes the state of a cluster, so that the next start begins with an empty cluster."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dradriver.cluster.folder import DataFolder
from dradriver.errors import UsageError

__all__ = ["clear_data_folder"]

_CONTENTS: Final = {
    "nodes": "prepared claims, CDI specs and logs of the drivers",
    "simulation": "simulated hardware",
    "kubeconfig": "the administrator's kubeconfig",
    "apiserver": "all objects and credentials",
}
"""Entries of a data folder, in the order of their removal. If the removal is interrupted, the folder is still a
cluster's, because `lock` is never removed."""


def clear_data_folder(path: Path) -> list[str]:
    """Remove the state of the cluster in a folder. Other files in the folder stay. Blocks.

    If the process dies during the removal, the next call continues it.

    Args:
        path: the folder. It may be missing or empty.

    Returns:
        A text for each removed part.

    Raises:
        UsageError: the folder is not the data folder of a cluster, another cluster runs in it, or a file cannot
            be removed.
    """
    try:
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            return []
        if not _is_cluster(path):
            raise UsageError(f"--fresh: {path} is not the data folder of a cluster, so nothing is removed")
        folder = DataFolder(path)
        folder.lock()
        try:
            return list(_remove(path))
        finally:
            folder.unlock()
    except OSError as error:
        raise UsageError(f"--fresh: {error.filename}: {error.strerror}") from error


def _is_cluster(path: Path) -> bool:
    """Return whether a folder is a cluster's. Other programs have files such as `lock` and logs, too."""
    present = {each.name for each in path.iterdir()}
    if "lock" not in present:
        return False
    is_own = all(name in {*_CONTENTS, "lock"} or name.endswith(".log") for name in present)
    has_state = not present.isdisjoint(_CONTENTS)
    return (is_own and (has_state or present == {"lock"})) or (path / "apiserver/token.key").is_file()


def _remove(path: Path) -> Iterator[str]:
    for log in sorted(path.glob("*.log")):
        log.unlink()
        yield f"{log} (log)"
    for name, contents in _CONTENTS.items():
        entry = path / name
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.exists() or entry.is_symlink():
            entry.unlink()
        else:
            continue
        yield f"{entry} ({contents})"
