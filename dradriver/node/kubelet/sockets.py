"""Names of the two sockets, and removal of sockets that a crash left behind.

The path of a Unix socket has at most 107 bytes. The registration socket is `<driver>-reg.sock` in the registry
directory. The service socket is `dra.sock` in the plugin's data directory. With a pod UID (rolling update) both
names contain it. Names that are too long are replaced by hashes. If the data directory's own path is too long,
the service socket is one level higher.
"""

import base64
import hashlib
import os
import re
import socket
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dradriver.errors import UsageError

__all__ = ["MAX_PATH", "Sockets", "is_served", "make_room"]

MAX_PATH: Final = 107
"""Bytes of a Unix socket's path (`sun_path` without the terminating zero)."""

_POD_UID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}"
_HASH: Final = r"[a-z2-7]{8}"


@dataclass(frozen=True, slots=True)
class Sockets:
    """The sockets of one instance of a driver.

    Attributes:
        registrar: the registration socket, which the kubelet finds in the registry directory.
        service: the service socket, which the registration reports to the kubelet.
        relatives: patterns of the names of other instances of the same driver, by directory.
    """

    registrar: Path
    service: Path
    relatives: tuple[tuple[Path, re.Pattern[str]], ...]

    @classmethod
    def of(cls, driver: str, registry_dir: Path, plugins_dir: Path, pod_uid: str = "") -> "Sockets":
        """Return the sockets of the instance in the pod `pod_uid`, or of the only instance.

        Raises:
            UsageError: a directory's path is too long for any name in it.
        """
        short, own = _hash(driver), _hash(f"{driver}/{pod_uid}")
        uid = f"-{pod_uid}" if pod_uid else ""
        registrar = _first_fit(
            "registry directory",
            [registry_dir / f"{driver}{uid}-reg.sock", registry_dir / f"dra-{short}-{own}.sock"],
        )
        service = _first_fit(
            "plugins directory",
            [
                plugins_dir / driver / f"dra{uid}.sock",
                plugins_dir / driver / f"{own}.sock",
                plugins_dir / f"{short}-{own}.sock",
            ],
        )
        return cls(registrar, service, _relatives(driver, short, registry_dir, plugins_dir))

    def stale(self) -> Iterator[Path]:
        """Yield sockets of this driver's instances that no process serves any more; blocks for a short time."""
        for directory, pattern in self.relatives:
            for path in sorted(directory.iterdir()) if directory.is_dir() else ():
                if pattern.fullmatch(path.name) and _is_socket(path) and not is_served(path):
                    yield path


def _relatives(
    driver: str, short: str, registry_dir: Path, plugins_dir: Path
) -> tuple[tuple[Path, re.Pattern[str]], ...]:
    name = re.escape(driver)
    return (
        (registry_dir, re.compile(rf"{name}(-({_POD_UID}))?-reg\.sock|dra-{short}-{_HASH}\.sock")),
        (plugins_dir / driver, re.compile(rf"dra(-({_POD_UID}))?\.sock|{_HASH}\.sock")),
        (plugins_dir, re.compile(rf"{short}-{_HASH}\.sock")),
    )


def _first_fit(what: str, paths: Iterable[Path]) -> Path:
    path = Path()
    for path in paths:
        if len(bytes(path)) <= MAX_PATH:
            return path
    room = MAX_PATH - len(path.name) - 1
    raise UsageError(
        f"{what} {path.parent} is too long for a socket: {len(bytes(path.parent))} bytes, at most {room} fit. "
        "Choose a shorter one, or give a symbolic link to it whose own path is short"
    )


def _hash(text: str) -> str:
    return base64.b32encode(hashlib.sha256(text.encode()).digest()[:5]).decode().lower()


def make_room(path: Path) -> None:
    """Ensure that a server can listen at `path`: remove a stale socket; blocks for a short time.

    Raises:
        UsageError: a live process listens there, the path is not a socket, or the directory cannot be created.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(path):  # a symlink is in the way too, wherever it leads
            return
        if not _is_socket(path):
            raise UsageError(f"{path} is in the way: it is no socket")
        if is_served(path):
            raise UsageError(
                f"another process serves {path}: is the driver running already? For two instances side by side "
                "give each the UID of its pod (--pod-uid, POD_UID)"
            )
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{path} can't be used for a socket: {error}") from error


def is_served(path: Path) -> bool:
    """Return whether a process listens on the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True  # no permission, or a full queue: a process is there
        return True


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False
