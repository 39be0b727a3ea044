"""Files that are either as they were or as they should be, whenever the process or the machine dies."""

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["TEMPORARY", "remove", "sync_directory", "temporary", "write_atomically"]

TEMPORARY = ".tmp"


def temporary(path: Path) -> Path:
    """Where the content of `path` is prepared: hidden, and with an ending that no CDI reader looks at."""
    return path.with_name(f".{path.name}{TEMPORARY}")


def write_atomically(path: Path, data: bytes, unsynced: set[Path] | None = None) -> None:
    """Writes a file in one step, made durable before it returns. One writer a path at a time.

    Args:
        path: the file.
        data: all of its content.
        unsynced: gets the folder, which the caller syncs then: the file is durable under its name after that.

    A process that dies in between leaves the old file and maybe the temporary one, which the next write of the
    same path takes over and `remove` removes.

    Raises:
        OSError: not written; the old file is untouched and no temporary one is left.
    """
    draft = temporary(path)
    try:
        descriptor = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            # Whatever the umask: processes in containers, which need not be root's, read device metadata.
            os.fchmod(descriptor, 0o644)
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
    if unsynced is None:
        sync_directory(path.parent)
    else:
        unsynced.add(path.parent)


def remove(path: Path) -> None:
    """Removes a file and its temporary one; neither needs to exist.

    A machine that dies right after may bring the file back: whoever removes it keeps a record until then.

    Raises:
        OSError: it can't be removed.
    """
    for each in (path, temporary(path)):
        each.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Makes the names in a folder durable.

    Raises:
        OSError: they may not be.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
