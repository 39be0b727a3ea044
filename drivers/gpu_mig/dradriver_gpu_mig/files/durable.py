"""Replaces and removes files so that they survive a crash of the process or the node. Blocking.

A file is replaced atomically. The file and its folder are synced before the write returns. If a process dies
right after a write, the new content is complete. If a process dies right before a write, the file is
unchanged.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dradriver as dra

__all__ = ["name_path", "remove_file", "write_file"]


def write_file(path: Path, content: bytes) -> None:
    """Replace a file. When this function returns, the file is on disk.

    Args:
        path: the file. Its folder is created if it is missing.
        content: the new content.

    Raises:
        DraError: the disk is full, or the folder is not writable.
    """
    temporary = path.with_suffix(".new")
    with name_path(path, "written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync(path.parent)


def remove_file(path: Path) -> None:
    """Remove a file, if it exists. When this function returns, the removal is on disk.

    Args:
        path: the file.

    Raises:
        DraError: the folder is not writable.
    """
    with name_path(path, "removed"):
        path.unlink(missing_ok=True)
        if path.parent.exists():
            _sync(path.parent)


@contextmanager
def name_path(path: Path, action: str) -> Iterator[None]:
    """Add the path to an error of the disk. The error of a missing file is unchanged.

    Args:
        path: the file.
        action: what was attempted, as a participle: `written`.

    Returns:
        A context, in which an OSError becomes a DraError.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise dra.DraError(f"{path} cannot be {action}: {error}") from error


def _sync(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
