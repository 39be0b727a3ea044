"""A cache folder outside of the checkout for the packages of a guest."""

import fcntl
import hashlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

RELEASE: Final = "bookworm"
"""Debian's release whose packages all guests are made of."""
PROGRAMS: Final = ("apt-get", "dpkg-deb", "tar", "setpriv")
"""Programs of the machine that every guest needs."""


class UnavailableError(Exception):
    """A package or program is not available; the message names it."""


@dataclass(frozen=True, slots=True)
class PackageCache:
    """Folders with unpacked packages. The cache may be removed at any time that no guest runs.

    Attributes:
        name: name of the guest.
        contents: all that decides what is unpacked. With other contents the cache is another folder.
    """

    name: str
    contents: object

    @property
    def folder(self) -> Path:
        """Folder of the cache. It may not exist yet."""
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        contents = hashlib.sha256(repr(self.contents).encode()).hexdigest()[:8]
        return Path(base) / "dradriver" / f"{self.name}-{RELEASE}-{contents}"

    def get_or_fetch(self, name: str, fetch: Callable[[Path], None], about: str) -> Path:
        """Return a folder of the cache. A missing folder is made first: whole, or not at all.

        A process that dies leaves an unfinished folder, which the next process removes. An apt-get that
        outlives the process disturbs nobody, because no name is used twice. Of two processes at once the second
        one waits, and uses what the first one made.

        Args:
            name: name of the folder in the cache.
            fetch: makes the folder that it is called with.
            about: text for people, printed before `fetch` is called.
        """
        folder = self.folder
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left in folder.glob("*.new.*"):
                shutil.rmtree(left, ignore_errors=True)
            if not (folder / name).exists():
                print(f"fetching {about} ...", flush=True)
                with tempfile.TemporaryDirectory(prefix=f"{name}.new.", dir=folder) as unfinished:
                    fetch(Path(unfinished) / name)
                    (Path(unfinished) / name).replace(folder / name)
        return folder / name


def find_missing(programs: tuple[str, ...] = (), packages: str = "") -> str:
    """Return why no guest can be made here; "" if it may work.

    Args:
        programs: names of the programs that a guest needs beside `PROGRAMS`.
        packages: Debian's packages with these programs, for people.
    """
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return "the guest takes Linux on x86_64"
    if _release() != RELEASE:
        return f"the guest is made of the packages of Debian's {RELEASE}, and this is another system"
    if absent := [name for name in (*PROGRAMS, *programs) if shutil.which(name) is None]:
        return f"not installed: {', '.join(absent)} (Debian: apt-get install util-linux {packages})"
    return ""


def _release() -> str:
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        return ""


def fetch_all(missing: str, *fetch: Callable[[], object]) -> None:
    """Fetch the packages of a guest, and print the reason if there can be no guest.

    Args:
        missing: result of `find_missing`.
        fetch: each fetches a part, and may raise `UnavailableError`.
    """
    reason = missing
    if not reason:
        try:
            for each in fetch:
                each()
        except UnavailableError as error:
            reason = str(error)
    if reason:
        print(f"without a guest: {reason}", flush=True)
