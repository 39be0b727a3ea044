"""Names of the two sockets, and what to do with those that a crash left behind.

A Unix socket's path has room for 107 bytes. The registration socket is `<driver>-reg.sock` in the registry
directory, the service socket `dra.sock` in the plugin's data directory; with a pod UID (rolling update) both
carry it. What is too long is replaced by hashes; a service socket whose directory is too long already goes one
level up.
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
    """Where one instance of a driver listens.

    Attributes:
        registrar: the kubelet finds it in the registry directory.
        service: the kubelet is told of it.
        relatives: patterns of the names that other instances of the same driver have, by directory.
    """

    registrar: Path
    service: Path
    relatives: tuple[tuple[Path, re.Pattern[str]], ...]

    @classmethod
    def of(cls, driver: str, registry_dir: Path, plugins_dir: Path, pod_uid: str = "") -> "Sockets":
        """The sockets of the instance in the pod `pod_uid`, or of the only one.

        Raises:
            UsageError: a directory's path is so long that no name fits behind it.
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
        """Sockets of instances of this driver on which nobody listens any more. Blocks, if not for long."""
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
    """Makes sure that a server can listen at `path`: takes a stale socket away. Blocks, if not for long.

    Raises:
        UsageError: a live process listens there, something that is no socket is in the way, or the
            directory can't be made.
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
    """Whether some process listens on the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True  # not allowed, or its queue is full: somebody is there
        return True


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False
