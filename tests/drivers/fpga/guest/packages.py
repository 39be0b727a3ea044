"""What a guest is made of: Debian's packages, fetched once into a cache folder outside the checkout.

Nothing is installed: apt works in that folder, with the machine's own sources, as if nothing were installed.
`python -m tests.drivers.fpga.guest.packages` fetches them.
"""

import ctypes.util
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

RELEASE: Final = "bookworm"
KERNEL: Final = "6.1"
COMPILER: Final = "gcc-12"
"""The release, its kernel, and the compiler that its kernel takes for modules."""
CORE: Final = ("fpga-mgr.c", "fpga-bridge.c", "fpga-region.c")
"""The kernel's FPGA core, which Debian's kernel is built without."""
_SOURCES: Final = f"linux-source-{KERNEL}"
_OF_THE_KERNEL: Final = {
    "linux-image-{abi}": ("./boot/vmlinuz-*", *(f"./lib/modules/*/kernel/{each}" for each in (
        "drivers/virtio", "net/9p", "fs/9p", "fs/netfs", "fs/fscache"))),
    "linux-headers-{abi}": (".",),
    "linux-headers-{version}-common": (".",),
    f"linux-kbuild-{KERNEL}": (".",),
    "libelf1": ("./usr/lib",),
    "busybox-static": ("./bin",),
}  # fmt: skip
"""Package -> what is unpacked of it, beside the sources."""
QEMU: Final = "qemu-system-x86_64"
_QEMU_PACKAGE: Final = "qemu-system-x86"
_CONFIGURATION: Final = """\
Dir::State "{apt}"; Dir::State::status "{apt}/status"; Dir::Cache "{apt}";
APT::Install-Recommends "false"; APT::Sandbox::User "root";
#clear APT::Update::Pre-Invoke; #clear APT::Update::Post-Invoke; #clear APT::Update::Post-Invoke-Success;
"""
_PROGRAMS: Final = ("apt-get", "dpkg-deb", "tar", "xz", "make", COMPILER, "setpriv")


class UnavailableError(Exception):
    """Something can't be had here; says what."""


def cache_folder() -> Path:
    """Where all of it is kept. It may be removed at any time that no guest runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    contents = hashlib.sha256(repr((_OF_THE_KERNEL, CORE, _QEMU_PACKAGE)).encode()).hexdigest()[:8]
    return Path(base) / "dradriver" / f"fpga-guest-{RELEASE}-{contents}"


def missing() -> str:
    """Why no guest can be made here, "" if it may work."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return "the guest takes Linux on x86_64"
    if _release() != RELEASE:
        return f"the guest is made of the packages of Debian's {RELEASE}, and this is another system"
    if absent := [name for name in _PROGRAMS if shutil.which(name) is None]:
        packages = "util-linux xz-utils build-essential"
        return f"not installed: {', '.join(absent)} (Debian: apt-get install {packages})"
    if ctypes.util.find_library("udev") is None:
        return "not installed: libudev (Debian: libudev1)"
    return ""


def _release() -> str:
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        return ""


def kernel() -> Path:
    """The folder of Debian's kernel, what modules are built with, and the FPGA core's sources.

    Raises:
        UnavailableError: it can't be fetched.
    """
    return kept("kernel", _fetch_kernel, f"Debian's Linux {KERNEL} with its sources, 230 MB")


def qemu() -> Path:
    """The folder of Debian's QEMU, and of all that it needs.

    Raises:
        UnavailableError: it can't be fetched.
    """
    return kept("qemu", _fetch_qemu, "Debian's QEMU, 43 MB")


def kept(name: str, fetch: Callable[[Path], None], about: str) -> Path:
    """A folder of the cache, made first where it is missing: whole, or not at all.

    A process that dies leaves an unfinished one, which the next one removes; an apt-get that outlives it is in
    nobody's way, because no name is used twice. Two at once do not disturb each other: the second one waits,
    and finds what the first one made.
    """
    folder = cache_folder()
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


def _fetch_kernel(folder: Path) -> None:
    _update(folder)
    depends = _apt(folder, "apt-cache", "depends", "linux-image-amd64")
    found = re.search(rf"linux-image-(({re.escape(KERNEL)}\S+)-amd64)", depends)
    if found is None:
        raise UnavailableError(f"linux-image-amd64 is not a Linux {KERNEL}")
    parts = {name.format(abi=found[1], version=found[2]): paths for name, paths in _OF_THE_KERNEL.items()}
    _apt(folder, "apt-get", "download", _SOURCES, *parts)
    for name, paths in parts.items():
        _unpack(_archive(folder, name), folder, '| tar -x -C "$folder" --wildcards "$@"', *paths)
    core = (f"{_SOURCES}/drivers/fpga/{name}" for name in CORE)
    within = f"./usr/src/{_SOURCES}.tar.xz"
    # The sources are a hundred times larger than what is wanted of them.
    strip = f'| tar -xO "{within}" | tar -xJ -C "$folder" --strip-components=1 --occurrence=1 "$@"'
    _unpack(_archive(folder, _SOURCES), folder, strip, *core)
    shutil.rmtree(_apt_folder(folder))


def _fetch_qemu(folder: Path) -> None:
    _update(folder)
    _apt(folder, "apt-get", "install", "--yes", "--download-only", _QEMU_PACKAGE)
    for archive in (_apt_folder(folder) / "archives").glob("*.deb"):
        _unpack(archive, folder, '| tar -x -C "$folder"')
    shutil.rmtree(_apt_folder(folder))


def _unpack(archive: Path, folder: Path, through: str, *paths: str) -> None:
    """Unpacks a package through a pipeline's end, which finds `paths` in its arguments."""
    environment = {**os.environ, "archive": str(archive), "folder": str(folder)}
    command = ("sh", "-c", f'dpkg-deb --fsys-tarfile "$archive" {through}', "sh", *paths)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"{archive.name} can't be unpacked: {_first_line(done.stderr)}")


def _apt_folder(folder: Path) -> Path:
    return folder / ".apt"


def _archive(folder: Path, name: str) -> Path:
    return next((_apt_folder(folder) / "archives").glob(f"{name}_*.deb"))


def _update(folder: Path) -> None:
    apt = _apt_folder(folder)
    (apt / "archives" / "partial").mkdir(parents=True)
    (apt / "lists" / "partial").mkdir(parents=True)
    (apt / "status").touch()
    (apt / "apt.conf").write_text(_CONFIGURATION.format(apt=apt))
    # Of the machine's sources, some may be out of reach; what is missing then is told when it is asked for.
    done = subprocess.run((*_words(folder, "apt-get"), "update"), capture_output=True, text=True, check=False)
    if not any((apt / "lists").glob("*_Packages*")):
        raise UnavailableError(f"apt-get update: {_first_line(done.stderr)}")


def _apt(folder: Path, program: str, *words: str) -> str:
    command = (*_words(folder, program), *words)
    archives = _apt_folder(folder) / "archives"
    done = subprocess.run(command, cwd=archives, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"{program} {words[0]}: {_first_line(done.stderr)}")
    return done.stdout


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _words(folder: Path, program: str) -> tuple[str, ...]:
    return (program, "--quiet=2", f"--config-file={_apt_folder(folder) / 'apt.conf'}")


def main() -> None:
    """Fetch what is missing, and say what the tests will have to do without."""
    reason = missing()
    if not reason:
        try:
            kernel()
            if shutil.which(QEMU) is None:
                qemu()
        except UnavailableError as error:
            reason = str(error)
    if reason:
        print(f"without a guest: {reason}", flush=True)


if __name__ == "__main__":
    main()
