"""Files in folders into which others may write too: CDI specs, device metadata, locks, the prepared state.

Whatever another process has put at one of our names, nothing outside the folder is written or read, and no
thread waits for it:

| at the name                    | read              | written                 | lock file, state file  |
|--------------------------------|-------------------|-------------------------|------------------------|
| symlink, also a dangling one   | is not this file  | replaced, not followed  | set aside              |
| FIFO, socket, device           | is not this file  | replaced, not opened    | set aside              |
| empty directory                | is not this file  | replaced                | set aside              |
| directory that holds something | is not this file  | an error that names it  | set aside              |
| hard link to another file      | read              | replaced, not written   | set aside (state file) |
| a file that is too long        | not read          | replaced                |                        |

The folder itself is followed: it is configured, and `/var/run` is a symlink to `/run`. What lies below it, as
the folders of device metadata do, is not.

A file is either as it was or as it should be, whenever a process dies. None is synced: what the end of the
machine takes from a claim's files was answered in a boot that is over. In the next one every claim is prepared
anew, and its files are compared with what they should be.
"""

import errno
import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

__all__ = [
    "TEMPORARY",
    "holds",
    "is_plain",
    "names",
    "open_lock",
    "read",
    "remove",
    "remove_folder",
    "set_aside_name",
    "temporary",
    "write_atomically",
]

TEMPORARY = ".tmp"

_NEVER_ELSEWHERE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_MOST_BYTES: Final = 2**24
_NOT_PLAIN: Final = frozenset({errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENODEV})
"""What open(2) says of symlinks (O_NOFOLLOW), of FIFOs and sockets, of directories and of device files."""


class NotPlainError(OSError):
    """Something that is no regular file has the name."""


def temporary(path: Path) -> Path:
    """Where the content of `path` is prepared: hidden, and with an ending that no CDI reader looks at."""
    return path.with_name(f".{path.name}{TEMPORARY}")


def write_atomically(path: Path, data: bytes, *, below: Path | None = None) -> None:
    """Writes a file in one step, as other processes see it. One writer a path at a time.

    A process that dies in between leaves the old file and maybe the temporary one, which the next write of the
    same path and `remove` remove. If the machine dies, the file is the old one, the new one, or empty.

    Args:
        path: the file.
        data: its content.
        below: a folder above it; the folders in between are made, and never followed elsewhere. The file's own
            folder by default.

    Raises:
        OSError: not written; the old file is untouched and no temporary one is left.
    """
    draft = temporary(path).name
    with _folder_of(path, below, make=True) as folder:
        try:
            descriptor = _new_draft(draft, folder)
            try:
                # Whatever the umask: processes in containers, which need not be root's, read device metadata.
                os.fchmod(descriptor, 0o644)
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
            finally:
                os.close(descriptor)
            try:
                os.replace(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            except IsADirectoryError:
                _clear(path.name, folder)
                os.replace(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            with suppress(OSError):
                os.unlink(draft, dir_fd=folder)
            raise _about(path, error) from error


def holds(path: Path, data: bytes, *, below: Path | None = None) -> bool:
    """Whether the file has exactly this content; one that can't be read has another.

    Args:
        path: the file.
        data: the content.
        below: as for `write_atomically`.
    """
    try:
        return _read(path, below, most=len(data)) == data
    except OSError:
        return False


def read(path: Path) -> bytes:
    """The content of a regular file.

    Raises:
        FileNotFoundError: nothing has this name.
        OSError: it can't be read, is no regular file, or is larger than 16 MiB.
    """
    data = _read(path, None, most=_MOST_BYTES)
    if data is None:
        raise OSError(errno.EFBIG, f"more than {_MOST_BYTES >> 20} MiB", str(path))
    return data


def remove(path: Path, *, below: Path | None = None) -> None:
    """Removes a file and its temporary one; neither needs to exist.

    A machine that dies right after may bring the file back: whoever removes it keeps a record until then.

    Raises:
        OSError: it can't be removed.
    """
    try:
        with _folder_of(path, below) as folder:
            for name in (path.name, temporary(path).name):
                _clear(name, folder)
    except (FileNotFoundError, NotADirectoryError):
        return  # there is no such folder, so there is no file
    except OSError as error:
        raise _about(path, error) from error


def remove_folder(path: Path, *, below: Path) -> None:
    """Removes a folder of ours and what it holds; of a symlink nothing but the symlink. It need not exist.

    Args:
        path: the folder.
        below: as for `write_atomically`.

    Raises:
        OSError: something can't be removed.
    """
    try:
        with _folder_of(path, below) as folder:
            try:
                os.unlink(path.name, dir_fd=folder)
            except IsADirectoryError:
                shutil.rmtree(path.name, dir_fd=folder)  # follows nothing where the system has `openat`
    except (FileNotFoundError, NotADirectoryError):
        return  # there is no such folder


def names(folder: Path) -> list[str]:
    """What the folder holds; nothing if there is none.

    Raises:
        OSError: it can't be read.
    """
    try:
        return [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def open_lock(path: Path) -> int:
    """A descriptor of a file that is only locked, never written; it is made if needed.

    What is no regular file is set aside: no process of ours can have a lock on it. One process at a time does
    that, so none sets aside the new file of another. A process that dies in between leaves the name free.

    Raises:
        OSError: it can't be opened.
    """
    with suppress(NotPlainError):
        return _open_lock(path)
    alone = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(NotPlainError):
            return _open_lock(path)
        path.rename(set_aside_name(path))
        return _open_lock(path)
    finally:
        os.close(alone)


def set_aside_name(path: Path) -> Path:
    """A free name for what is kept for people to look at."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    while os.path.lexists(aside):
        aside = aside.with_name(f"{aside.name}x")
    return aside


def is_plain(path: Path) -> bool:
    """Whether nothing has the name, or a regular file that has no second one.

    Raises:
        OSError: that can't be told.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return True
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1


def _new_draft(name: str, folder: int) -> int:
    """A new empty file, in place of whatever has its name."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | _NEVER_ELSEWHERE
    for _ in range(2):
        try:
            return os.open(name, flags, 0o644, dir_fd=folder)
        except FileExistsError:
            _clear(name, folder)
    return os.open(name, flags, 0o644, dir_fd=folder)


def _clear(name: str, folder: int) -> None:
    """Removes what has the name, if anything; of directories only empty ones.

    Raises:
        OSError: it can't be removed, or is a directory that holds something.
    """
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        os.rmdir(name, dir_fd=folder)


def _read(path: Path, below: Path | None, *, most: int) -> bytes | None:
    """The content of a regular file; None if it is longer than `most`."""
    with _folder_of(path, below) as folder:
        descriptor = _open_plain(path.name, os.O_RDONLY, folder)
    try:
        if os.fstat(descriptor).st_size > most:
            return None
        parts: list[bytes] = []
        room = most + 1
        while room and (part := os.read(descriptor, room)):
            parts.append(part)
            room -= len(part)
    finally:
        os.close(descriptor)
    return b"".join(parts) if room else None


def _open_lock(path: Path) -> int:
    return _open_plain(str(path), os.O_CREAT | os.O_RDWR, None)


def _open_plain(name: str, flags: int, folder: int | None) -> int:
    try:
        descriptor = os.open(name, flags | _NEVER_ELSEWHERE, 0o600, dir_fd=folder)
    except OSError as error:
        if error.errno in _NOT_PLAIN:
            raise NotPlainError(error.errno, "no regular file has this name", name) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotPlainError(errno.EINVAL, "no regular file has this name", name)
    return descriptor


@contextmanager
def _folder_of(path: Path, below: Path | None, *, make: bool = False) -> Iterator[int]:
    """The file's folder; from `below` on, no name on the way is followed elsewhere.

    Args:
        path: the file.
        below: where the way begins; None: at the file's folder.
        make: makes missing folders on the way, and removes what is in their place.
    """
    folder = os.open(below or path.parent, _FOLDER)
    try:
        for name in path.parent.relative_to(below).parts if below else ():
            inner = _enter(name, folder, make=make)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _enter(name: str, folder: int, *, make: bool) -> int:
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    if make:
        _clear(name, folder)
        os.mkdir(name, 0o755, dir_fd=folder)
    return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)


def _about(path: Path, error: OSError) -> OSError:
    """The error with the file's whole path."""
    return OSError(error.errno, error.strerror, str(path))
