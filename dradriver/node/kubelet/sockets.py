"""Name the two sockets of an instance, and remove sockets that remain after a crash.

The path of a Unix socket has at most 107 bytes. The registration socket is `<driver>-reg.sock` in the registry
directory. The service socket is `dra.sock` in the plugin's data directory. If the pod's UID is set (rolling
update), both names contain the UID. If a name is too long, a hash replaces it. If the path of the data
directory is too long, the service socket is in the parent of the data directory.
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
"""Maximum size of a Unix socket's path in bytes (`sun_path` without the terminating zero)."""

_POD_UID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}"
_HASH: Final = r"[a-z2-7]{8}"


@dataclass(frozen=True, slots=True)
class Sockets:
    """The sockets of one instance of a driver.

    Attributes:
        registrar: the registration socket, which the kubelet finds in the registry directory.
        service: the service socket. The registration service tells the kubelet its path.
        instance_patterns: directories, each with a pattern that matches the sockets of all instances of the
            driver.
    """

    registrar: Path
    service: Path
    instance_patterns: tuple[tuple[Path, re.Pattern[str]], ...]

    @classmethod
    def of(cls, driver: str, registry_dir: Path, plugins_dir: Path, pod_uid: str = "") -> "Sockets":
        """Return the sockets of the instance in the pod `pod_uid`; if `pod_uid` is empty, of the only instance.

        Raises:
            UsageError: a directory's path is too long for any name in it.
        """
        short, own = _hash(driver), _hash(f"{driver}/{pod_uid}")
        uid = f"-{pod_uid}" if pod_uid else ""
        registrar = _find_fit(
            "registry directory",
            [registry_dir / f"{driver}{uid}-reg.sock", registry_dir / f"dra-{short}-{own}.sock"],
        )
        service = _find_fit(
            "plugins directory",
            [
                plugins_dir / driver / f"dra{uid}.sock",
                plugins_dir / driver / f"{own}.sock",
                plugins_dir / f"{short}-{own}.sock",
            ],
        )
        return cls(registrar, service, _instance_patterns(driver, short, registry_dir, plugins_dir))

    def find_stale(self) -> Iterator[Path]:
        """Yield sockets of the driver's instances that no process serves any more; blocks for a short time."""
        for directory, pattern in self.instance_patterns:
            for path in sorted(directory.iterdir()) if directory.is_dir() else ():
                if pattern.fullmatch(path.name) and _is_socket(path) and not is_served(path):
                    yield path


def _instance_patterns(
    driver: str, short: str, registry_dir: Path, plugins_dir: Path
) -> tuple[tuple[Path, re.Pattern[str]], ...]:
    name = re.escape(driver)
    return (
        (registry_dir, re.compile(rf"{name}(-({_POD_UID}))?-reg\.sock|dra-{short}-{_HASH}\.sock")),
        (plugins_dir / driver, re.compile(rf"dra(-({_POD_UID}))?\.sock|{_HASH}\.sock")),
        (plugins_dir, re.compile(rf"{short}-{_HASH}\.sock")),
    )


def _find_fit(kind: str, paths: Iterable[Path]) -> Path:
    path = Path()
    for path in paths:
        if len(bytes(path)) <= MAX_PATH:
            return path
    room = MAX_PATH - len(path.name) - 1
    raise UsageError(
        f"{kind} {path.parent}: must have at most {room} bytes for a socket, has {len(bytes(path.parent))}. "
        "Choose a shorter path, or a short symbolic link to it"
    )


def _hash(text: str) -> str:
    return base64.b32encode(hashlib.sha256(text.encode()).digest()[:5]).decode().lower()


def make_room(path: Path) -> None:
    """Remove a stale socket at `path`, so that a server can listen there; blocks for a short time.

    Raises:
        UsageError: a process listens at `path`, the path is not a socket, or the directory cannot be created.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(path):  # also finds a dangling symlink, at which no server can listen
            return
        if not _is_socket(path):
            raise UsageError(f"{path} exists and is not a socket")
        if is_served(path):
            raise UsageError(
                f"socket {path} is served by another process: is the driver already running? For two instances "
                "at the same time, set the UID of the pod for each (--pod-uid, POD_UID)"
            )
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be used for a socket: {error}") from error


def is_served(path: Path) -> bool:
    """Return whether a process listens on the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True  # no permission, or a full queue: a process may listen
        return True


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False
