"""Files that are either as they were or as they should be, whenever a process dies.

None is synced: what the end of the machine takes from a claim's files was answered in a boot that is over. In
the next one every claim is prepared anew, and its files are compared with what they should be.
"""

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["TEMPORARY", "remove", "temporary", "write_atomically"]

TEMPORARY = ".tmp"


def temporary(path: Path) -> Path:
    """Where the content of `path` is prepared: hidden, and with an ending that no CDI reader looks at."""
    return path.with_name(f".{path.name}{TEMPORARY}")


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file in one step, as other processes see it. One writer a path at a time.

    A process that dies in between leaves the old file and maybe the temporary one, which the next write of the
    same path takes over and `remove` removes. If the machine dies, the file is the old one, the new
    one, or empty.

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
        finally:
            os.close(descriptor)
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise


def remove(path: Path) -> None:
    """Removes a file and its temporary one; neither needs to exist.

    A machine that dies right after may bring the file back: whoever removes it keeps a record until then.

    Raises:
        OSError: it can't be removed.
    """
    for each in (path, temporary(path)):
        each.unlink(missing_ok=True)
