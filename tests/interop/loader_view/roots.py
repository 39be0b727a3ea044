"""Roots of containers: the C library, the loader and a shell of Debian, Ubuntu and Alpine, in a cache folder.

A root has the packages that decide how libraries are found, as debootstrap unpacks them, and a program of ours.
Alpine's own packages are not needed: its loader is musl, which Debian has too.
"""

import hashlib
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.drivers.guest import cache
from tests.drivers.guest.apt import open_apt, unpack
from tests.drivers.guest.cache import PackageCache, UnavailableError
from tests.e2e.bed.programs import COMPILER

__all__ = ["PROGRAM", "ROOTS", "find_missing", "get_root"]

PROGRAM: Final = "/usr/bin/find-libraries"
_SOURCE: Final = Path(__file__).with_name("find_libraries.c")
_GLIBC: Final = ("base-files", "libc-bin", "libc6", "busybox-static")
_MUSL: Final = ("musl", "musl-dev", "busybox-static")
_MUSL_LIBRARIES: Final = "usr/lib/x86_64-linux-musl"
_UBUNTU: Final = "http://archive.ubuntu.com/ubuntu/pool/main"
_NOBLE: Final[Mapping[str, str]] = {
    "b/base-files/base-files_13ubuntu10_amd64.deb": (
        "cd06729c776397bb74779773f4dece372a1a3f795e5992804022bffab0278ffb"
    ),
    "g/glibc/libc-bin_2.39-0ubuntu8_amd64.deb": (
        "4ff873a8ae9622f0bc4e4be8cb1e5b3e94ff53a93a18af10e54f6e55cd7f92d0"
    ),
    "g/glibc/libc6_2.39-0ubuntu8_amd64.deb": "af36c7ac770770fe3d3c10e85d6bc538e76e57570ba7db7d397fb9f654783ef3",
}
"""Packages of Ubuntu 24.04 as it was released, which do not change, and their SHA-256. Debian has no key of
Ubuntu."""
_INTO_LINKS: Final = '| tar -x -C "$folder" --keep-directory-symlink'
_MERGED: Final = ("bin", "lib", "lib64", "sbin")
_CACHE: Final = PackageCache("loader-view", (_SOURCE.read_text(), Path(__file__).read_text()))


def find_missing() -> str:
    """Return why no root can be made here; "" if it may work, or if all are in the cache."""
    if all((_CACHE.folder / name).exists() for name in ROOTS):
        return ""
    return cache.find_missing() or ("" if COMPILER else "no C compiler")


def get_root(name: str) -> Path:
    """Return the folder of a root, which must not be changed.

    Args:
        name: a key of `ROOTS`.

    Raises:
        UnavailableError: the packages can't be fetched.
    """
    return _CACHE.get_or_fetch(name, ROOTS[name], f"packages of a {name} root, 7 MB")


def _make_debian(root: Path) -> None:
    _unpack_debian(root, _GLIBC)
    _link_shell(root)
    _compile(root)


def _make_ubuntu(root: Path) -> None:
    for name in _MERGED:  # libc6 of 24.04 has the links in no package: debootstrap makes them
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for path, checksum in _NOBLE.items():
        archive = root / Path(path).name
        archive.write_bytes(_download(f"{_UBUNTU}/{path}", checksum))
        unpack(archive, root, _INTO_LINKS)
        archive.unlink()
    _unpack_debian(root, ("busybox-static",))
    _link_shell(root)
    _compile(root)


def _make_alpine(root: Path) -> None:
    _unpack_debian(root, _MUSL)
    # As on Alpine: the loader is the C library itself, and no file names folders of libraries.
    (root / "lib/ld-musl-x86_64.so.1").unlink()
    shutil.copy2(root / "lib/x86_64-linux-musl/libc.so", root / "lib/ld-musl-x86_64.so.1")
    (root / "etc/ld-musl-x86_64.path").unlink()
    (root / "etc/alpine-release").write_text("3.22.0\n")
    objects = root / _MUSL_LIBRARIES
    start = tuple(str(objects / name) for name in ("crt1.o", "crti.o", "crtn.o"))
    linked = (f"-L{root}/lib/x86_64-linux-musl", "-l:libc.so", "-Wl,-dynamic-linker=/lib/ld-musl-x86_64.so.1")
    _compile(root, "-nostdlib", "-no-pie", *start, *linked)
    shutil.rmtree(root / "lib/x86_64-linux-musl")
    shutil.rmtree(objects)
    _link_shell(root)


ROOTS: Final[Mapping[str, Callable[[Path], None]]] = {
    "debian": _make_debian,
    "ubuntu": _make_ubuntu,
    "alpine": _make_alpine,
}
"""Name of a root -> what makes it."""


def _unpack_debian(root: Path, packages: tuple[str, ...]) -> None:
    root.mkdir(parents=True, exist_ok=True)
    with open_apt(root / ".apt") as apt:
        for archive in apt.download(*packages):
            unpack(archive, root, _INTO_LINKS)


def _link_shell(root: Path) -> None:
    (root / "bin/sh").symlink_to("busybox")
    for name in ("proc", "sys", "dev", "tmp"):
        (root / name).mkdir(exist_ok=True)


def _compile(root: Path, *options: str) -> None:
    assert COMPILER is not None
    target = root / PROGRAM.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run((COMPILER, "-O1", "-o", str(target), str(_SOURCE), *options), check=True)


def _download(address: str, checksum: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            content: bytes = answer.read()
    except (urllib.error.URLError, TimeoutError) as error:
        raise UnavailableError(f"{address}: {error}") from error
    if hashlib.sha256(content).hexdigest() != checksum:
        raise UnavailableError(f"{address} has another checksum")
    return content
