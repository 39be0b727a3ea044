"""Read, write and remove files in folders to which other processes can also write.

The files are CDI specs, device metadata, locks and the prepared state.

Another process may have put something else at the path of one of these files. Even then, no file outside of the
folder is read or written, and no thread blocks:

| what is at the path         | if read  | if written                     | if lock or state file |
|-----------------------------|----------|--------------------------------|-----------------------|
| symlink, even if dangling   | rejected | replaced, not followed         | set aside             |
| FIFO, socket, device        | rejected | replaced, not opened           | set aside             |
| empty directory             | rejected | replaced                       | set aside             |
| directory that is not empty | rejected | error with the path            | set aside             |
| hard link to another file   | read     | replaced, other file unchanged | state file: set aside |
| file that is too long       | rejected | replaced                       | used                  |

The folder itself may be a symlink, because its path is configured, and `/var/run` is a symlink to `/run`.
Symlinks below the folder, such as in the folders of device metadata, are not followed.

If a process dies at any point, a file has its old or its new content. Files are not synced to disk. If the
machine dies, files of claims may be lost. After the next boot, every claim is prepared again, and its files are
compared and written again if needed.
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
    "has_content",
    "is_plain",
    "list_names",
    "open_lock",
    "read",
    "remove",
    "remove_folder",
    "set_aside_path",
    "temporary_path",
    "write_atomically",
]

TEMPORARY = ".tmp"

_SAFE_FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_MAX_BYTES: Final = 2**24
_NOT_PLAIN: Final = frozenset({errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENODEV})
"""The errors of open(2) for symlinks (O_NOFOLLOW), FIFOs and sockets, directories, and device files."""


class NotPlainError(OSError):
    """The path is not a regular file."""


def temporary_path(path: Path) -> Path:
    """Return the path of the temporary file for `path`: a hidden file with a suffix that CDI readers ignore."""
    return path.with_name(f".{path.name}{TEMPORARY}")


def write_atomically(path: Path, data: bytes, *, below: Path | None = None) -> None:
    """Write a file so that other processes see the old or the new content.

    The caller must ensure that each path has only one writer at a time.

    If the process dies in between, the old file stays, and possibly the temporary file. The next write of the
    path, or `remove`, removes the temporary file. If the machine dies, the file has the old content, has the
    new content, or is empty.

    Args:
        path: the file.
        data: the content.
        below: a folder that contains the file, directly or in subfolders. Missing subfolders are created, and
            subfolders that are symlinks are not followed. Default: the file's own folder.

    Raises:
        OSError: the file was not written. The old file is unchanged and the temporary file is removed.
    """
    draft = temporary_path(path).name
    with _folder_of(path, below, make=True) as folder:
        try:
            descriptor = _new_draft(draft, folder)
            try:
                # Set explicitly, independent of the umask: processes in containers that do not run as root must
                # be able to read device metadata.
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
            raise _with_path(path, error) from error


def has_content(path: Path, data: bytes, *, below: Path | None = None) -> bool:
    """Return whether the file has exactly this content; False if it cannot be read.

    Args:
        path: the file.
        data: the content.
        below: as for `write_atomically`.
    """
    try:
        return _read(path, below, limit=len(data)) == data
    except OSError:
        return False


def read(path: Path) -> bytes:
    """Return the content of a regular file.

    Raises:
        FileNotFoundError: the path does not exist.
        OSError: the file cannot be read, is not a regular file, or is larger than 16 MiB.
    """
    data = _read(path, None, limit=_MAX_BYTES)
    if data is None:
        raise OSError(errno.EFBIG, f"more than {_MAX_BYTES >> 20} MiB", str(path))
    return data


def remove(path: Path, *, below: Path | None = None) -> None:
    """Remove a file and its temporary file, if they exist.

    If the machine dies right after it, the file may exist again. The caller must keep a record of the file, so
    that the next process can remove it again.

    Raises:
        OSError: the file cannot be removed.
    """
    try:
        with _folder_of(path, below) as folder:
            for name in (path.name, temporary_path(path).name):
                _clear(name, folder)
    except (FileNotFoundError, NotADirectoryError):
        return  # the folder does not exist, so there is no file
    except OSError as error:
        raise _with_path(path, error) from error


def remove_folder(path: Path, *, below: Path) -> None:
    """Remove a folder with its content, if it exists; a symlink is removed without its target.

    Args:
        path: the folder.
        below: as for `write_atomically`.

    Raises:
        OSError: the folder or its content cannot be removed.
    """
    try:
        with _folder_of(path, below) as folder:
            try:
                os.unlink(path.name, dir_fd=folder)
            except IsADirectoryError:
                shutil.rmtree(path.name, dir_fd=folder)  # follows no symlinks where the system has `openat`
    except (FileNotFoundError, NotADirectoryError):
        return  # the folder does not exist


def list_names(folder: Path) -> list[str]:
    """Return the names of the files in the folder; empty if the folder does not exist.

    Raises:
        OSError: the folder cannot be read.
    """
    try:
        return [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def open_lock(path: Path) -> int:
    """Open a lock file, which is never written, and return its descriptor; the file is created if needed.

    If the path is not a regular file, it is set aside, because no process of the driver can have a lock on it.
    Only one process at a time does this, so that no process sets aside another process's new file. If a process
    dies in between, the path does not exist, and the next call creates the file.

    Raises:
        OSError: the file cannot be opened.
    """
    with suppress(NotPlainError):
        return _open_lock(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(NotPlainError):
            return _open_lock(path)
        path.rename(set_aside_path(path))
        return _open_lock(path)
    finally:
        os.close(folder)


def set_aside_path(path: Path) -> Path:
    """Return an unused path for a file that is set aside for inspection."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    while os.path.lexists(aside):
        aside = aside.with_name(f"{aside.name}x")
    return aside


def is_plain(path: Path) -> bool:
    """Return whether the path does not exist, or is a regular file without other hard links.

    Raises:
        OSError: the file cannot be inspected.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return True
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1


def _new_draft(name: str, folder: int) -> int:
    """Create a new empty file; a file, link or empty directory with its name is removed first."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | _SAFE_FLAGS
    for _ in range(2):
        try:
            return os.open(name, flags, 0o644, dir_fd=folder)
        except FileExistsError:
            _clear(name, folder)
    return os.open(name, flags, 0o644, dir_fd=folder)


def _clear(name: str, folder: int) -> None:
    """Remove the file, link or empty directory that has the name, if there is one.

    Raises:
        OSError: the file cannot be removed, or is a directory that is not empty.
    """
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        os.rmdir(name, dir_fd=folder)


def _read(path: Path, below: Path | None, *, limit: int) -> bytes | None:
    """Return the content of a regular file; None if it is longer than `limit`."""
    with _folder_of(path, below) as folder:
        descriptor = _open_plain(path.name, os.O_RDONLY, folder)
    try:
        if os.fstat(descriptor).st_size > limit:
            return None
        parts: list[bytes] = []
        room = limit + 1
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
        descriptor = os.open(name, flags | _SAFE_FLAGS, 0o600, dir_fd=folder)
    except OSError as error:
        if error.errno in _NOT_PLAIN:
            raise NotPlainError(error.errno, "not a regular file", name) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotPlainError(errno.EINVAL, "not a regular file", name)
    return descriptor


@contextmanager
def _folder_of(path: Path, below: Path | None, *, make: bool = False) -> Iterator[int]:
    """Open the file's folder; symlinks below `below` are not followed.

    Args:
        path: the file.
        below: the folder that is opened first. None: the file's own folder.
        make: create missing folders on the path. If a file or link has a folder's name, it is removed first.
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


def _with_path(path: Path, error: OSError) -> OSError:
    """Return the error with the file's full path."""
    return OSError(error.errno, error.strerror, str(path))
