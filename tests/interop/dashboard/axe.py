"""axe-core of npm, which finds barriers in pages."""

import hashlib
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from tests.drivers.guest.cache import PackageCache, UnavailableError

_VERSION: Final = "4.10.3"
_SHA256: Final = "0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292"
_CACHE: Final = PackageCache("axe-core", (_VERSION, _SHA256))


def fetch_axe() -> str:
    """Return the script.

    Raises:
        UnavailableError: there is no npm, or the package cannot be fetched.
    """
    folder = _CACHE.get_or_fetch("package", _fetch, f"axe-core {_VERSION}, 1 MB")
    return (folder / "axe.min.js").read_text(encoding="utf-8")


def _fetch(folder: Path) -> None:
    if shutil.which("npm") is None:
        raise UnavailableError("not installed: npm (Debian: apt-get install npm)")
    folder.mkdir()
    command = ("npm", "pack", f"axe-core@{_VERSION}", "--silent", f"--pack-destination={folder}")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"npm pack axe-core: {done.stderr.strip().partition(chr(10))[0]}")
    archive = next(folder.glob("*.tgz"))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != _SHA256:
        raise UnavailableError(f"axe-core {_VERSION} has the checksum {digest}, not {_SHA256}")
    with tarfile.open(archive) as opened:
        script = opened.extractfile("package/axe.min.js")
        if script is None:
            raise UnavailableError("axe-core has no axe.min.js")
        (folder / "axe.min.js").write_bytes(script.read())
    archive.unlink()
