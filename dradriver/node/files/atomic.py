"""Read, write and remove files in folders that other processes can write to, too.

The files are CDI specs, device metadata, locks and the prepared state.

Whatever another process has put at one of our names, nothing outside the folder is written or read, and no
thread blocks on it:

| at the name                    | read              | written                 | lock file, state file  |
|--------------------------------|-------------------|-------------------------|------------------------|
| symlink, also a dangling one   | is not this file  | replaced, not followed  | set aside              |
| FIFO, socket, device           | is not this file  | replaced, not opened    | set aside              |
| empty directory                | is not this file  | replaced                | set aside              |
| directory that is not empty    | is not this file  | an error that names it  | set aside              |
| hard link to another file      | read              | replaced, not written   | set aside (state file) |
| a file that is too long        | not read          | replaced                |                        |

The folder itself may be a symlink: it is configured, and `/var/run` is a symlink to `/run`. Symlinks below it,
such as in the folders of device metadata, are not followed.

If a process dies at any point, a file has its old or its new content. Files are not synced. If the machine
dies, files of claims may be lost, but the next boot prepares every claim again and compares its files.
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
"""The errors of open(2) for symlinks (O_NOFOLLOW), FIFOs and sockets, directories, and device files."""


class NotPlainError(OSError):
    """The name belongs to something that is not a regular file."""


def temporary(path: Path) -> Path:
    """Return the path of a temporary file for `path`: hidden, and with a suffix that CDI readers ignore."""
    return path.with_name(f".{path.name}{TEMPORARY}")


def write_atomically(path: Path, data: bytes, *, below: Path | None = None) -> None:
    """Write a file in one step, as other processes see it; one writer for each path at a time.

    If the process dies in between, the old file stays, and maybe the temporary one. The next write of the same
    path, or `remove`, removes the temporary file. If the machine dies, the file has the old content, the new
    content, or is empty.

    Args:
        path: the file.
        data: its content.
        below: a folder above it. Missing folders in between are created, and symlinks in between are not
            followed. Default: the file's own folder.

    Raises:
        OSError: not written. The old file is unchanged and there is no temporary one.
    """
    draft = temporary(path).name
    with _folder_of(path, below, make=True) as folder:
        try:
            descriptor = _new_draft(draft, folder)
            try:
                # Independent of the umask: processes in containers read device metadata, and need not run as
                # root.
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
    """Return whether the file has exactly this content; False if it cannot be read.

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
    """Return the content of a regular file.

    Raises:
        FileNotFoundError: nothing has this name.
        OSError: it cannot be read, is not a regular file, or is larger than 16 MiB.
    """
    data = _read(path, None, most=_MOST_BYTES)
    if data is None:
        raise OSError(errno.EFBIG, f"more than {_MOST_BYTES >> 20} MiB", str(path))
    return data


def remove(path: Path, *, below: Path | None = None) -> None:
    """Remove a file and its temporary file; neither needs to exist.

    If the machine dies right after it, the file may come back. The caller keeps a record until it is removed
    again.

    Raises:
        OSError: it cannot be removed.
    """
    try:
        with _folder_of(path, below) as folder:
            for name in (path.name, temporary(path).name):
                _clear(name, folder)
    except (FileNotFoundError, NotADirectoryError):
        return  # the folder does not exist, so there is no file
    except OSError as error:
        raise _about(path, error) from error


def remove_folder(path: Path, *, below: Path) -> None:
    """Remove a folder of ours with its content; of a symlink, only the link. It need not exist.

    Args:
        path: the folder.
        below: as for `write_atomically`.

    Raises:
        OSError: something cannot be removed.
    """
    try:
        with _folder_of(path, below) as folder:
            try:
                os.unlink(path.name, dir_fd=folder)
            except IsADirectoryError:
                shutil.rmtree(path.name, dir_fd=folder)  # follows no symlinks where the system has `openat`
    except (FileNotFoundError, NotADirectoryError):
        return  # the folder does not exist


def names(folder: Path) -> list[str]:
    """Return the names in the folder; empty if it does not exist.

    Raises:
        OSError: it cannot be read.
    """
    try:
        return [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def open_lock(path: Path) -> int:
    """Open a file that is only locked, never written, and return its descriptor; it is created if needed.

    Anything that is not a regular file is set aside: no process of ours can have a lock on it. One process at a
    time does this, so that none sets aside the new file of another. If a process dies in between, the name is
    free.

    Raises:
        OSError: it cannot be opened.
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
    """Return a free name for a file that is kept for inspection."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    while os.path.lexists(aside):
        aside = aside.with_name(f"{aside.name}x")
    return aside


def is_plain(path: Path) -> bool:
    """Return whether the name is free, or belongs to a regular file without a second name.

    Raises:
        OSError: the file cannot be inspected.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return True
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1


def _new_draft(name: str, folder: int) -> int:
    """Create a new empty file, and replace whatever has its name."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | _NEVER_ELSEWHERE
    for _ in range(2):
        try:
            return os.open(name, flags, 0o644, dir_fd=folder)
        except FileExistsError:
            _clear(name, folder)
    return os.open(name, flags, 0o644, dir_fd=folder)


def _clear(name: str, folder: int) -> None:
    """Remove whatever has the name, if anything; directories only if they are empty.

    Raises:
        OSError: it cannot be removed, or is a directory that is not empty.
    """
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        os.rmdir(name, dir_fd=folder)


def _read(path: Path, below: Path | None, *, most: int) -> bytes | None:
    """Return the content of a regular file; None if it is longer than `most`."""
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
    """Open the file's folder; no symlink below `below` is followed.

    Args:
        path: the file.
        below: the first folder of the path. None: the file's own folder.
        make: create missing folders on the path, and remove anything in their place.
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
    """Return the error with the file's full path."""
    return OSError(error.errno, error.strerror, str(path))
