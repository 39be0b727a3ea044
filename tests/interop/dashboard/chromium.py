"""Debian's Chromium, its libraries and a font, fetched once into a cache folder and never installed.

`python -m tests.interop.dashboard.chromium` fetches them.
"""

from pathlib import Path
from typing import Final

from tests.drivers.guest import cache
from tests.drivers.guest.apt import open_apt, unpack
from tests.drivers.guest.cache import PackageCache

_PACKAGES: Final = ("chromium", "fonts-dejavu-core", "libnss3", "fontconfig-config")
_LEFT_OUT: Final = ("libc6_", "libgcc-s1_", "gcc-12-base_")
"""The program is started by the machine's loader, which takes the C library of its own version alone."""
_CACHE: Final = PackageCache("chromium", (_PACKAGES, _LEFT_OUT))


def find_missing() -> str:
    """Return why no Chromium can be fetched here; "" if it may work."""
    return cache.find_missing()


def fetch_chromium() -> Path:
    """Return the folder into which Chromium is unpacked.

    Raises:
        UnavailableError: it cannot be fetched.
    """
    return _CACHE.get_or_fetch("root", _fetch, "Debian's Chromium, 180 MB")


def _fetch(folder: Path) -> None:
    with open_apt(folder / ".apt") as apt:
        for archive in apt.download_closure(*_PACKAGES):
            if not archive.name.startswith(_LEFT_OUT):
                unpack(archive, folder)


if __name__ == "__main__":
    cache.fetch_all(find_missing(), fetch_chromium)
