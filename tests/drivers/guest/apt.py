"""Debian's packages without an installation: apt works in a folder, as if nothing were installed."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.drivers.guest.cache import RELEASE, UnavailableError

_CONFIGURATION: Final = """\
Dir::State "{apt}"; Dir::State::status "{apt}/status"; Dir::Cache "{apt}";
APT::Install-Recommends "false"; APT::Sandbox::User "root";
#clear APT::Update::Pre-Invoke; #clear APT::Update::Post-Invoke; #clear APT::Update::Post-Invoke-Success;
"""
_OF_A_SUITE: Final = """\
Dir::Etc::sourcelist "{apt}/sources.list"; Dir::Etc::sourceparts "-"; APT::Default-Release "{suite}";
"""
_KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
_QEMU_PACKAGE: Final = "qemu-system-x86"


@dataclass(frozen=True, slots=True)
class Apt:
    """apt in a folder of its own; see `open_apt`."""

    folder: Path
    suite: str

    @property
    def archives(self) -> Path:
        """Folder with the downloaded packages."""
        return self.folder / "archives"

    def download(self, *packages: str) -> list[Path]:
        """Download these packages alone; return their files in the same order."""
        self.run("apt-get", "download", *packages)
        return [next(self.archives.glob(f"{name}_*.deb")) for name in packages]

    def download_closure(self, *packages: str) -> list[Path]:
        """Download packages and all that they depend on."""
        self.run("apt-get", "install", "--yes", "--download-only", *packages)
        return sorted(self.archives.glob("*.deb"))

    def find_kernel(self, version: str) -> tuple[str, str]:
        """Return the ABI of the suite's kernel, and the ABI without its flavor.

        Args:
            version: beginning of the version: "6.1".
        """
        depends = self.run("apt-cache", "depends", "linux-image-amd64")
        found = re.search(rf"linux-image-(({re.escape(version)}\.\S+)-amd64)", depends)
        if found is None:
            raise UnavailableError(f"linux-image-amd64 is not a Linux {version}")
        return found[1], found[2]

    def update(self) -> None:
        """Download the lists of packages."""
        # Some of the machine's sources may be unreachable. A missing package is reported when it is downloaded.
        command = self._words("apt-get", "update")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not any((self.folder / "lists").glob(f"*{self.suite}_*_Packages*")):
            raise UnavailableError(f"apt-get update: {_first_line(done.stderr)}")

    def run(self, program: str, *words: str) -> str:
        """Run one of apt's programs; return its output.

        Raises:
            UnavailableError: the program failed.
        """
        command = self._words(program, *words)
        done = subprocess.run(command, cwd=self.archives, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise UnavailableError(f"{program} {words[0]}: {_first_line(done.stderr)}")
        return done.stdout

    def _words(self, program: str, *words: str) -> tuple[str, ...]:
        return (program, "--quiet=2", f"--config-file={self.folder / 'apt.conf'}", *words)


@contextmanager
def open_apt(folder: Path, suite: str = "") -> Iterator[Apt]:
    """Yield apt in a folder, which is removed at the end.

    Args:
        folder: a new one.
        suite: a suite that the machine's sources do not name, for example "bookworm-backports". Its packages
            are preferred, and the machine's mirror serves it. "": the machine's own sources.

    Raises:
        UnavailableError: the packages' lists cannot be fetched.
    """
    for name in ("archives", "lists"):
        (folder / name / "partial").mkdir(parents=True)
    (folder / "status").touch()
    (folder / "apt.conf").write_text(_CONFIGURATION.format(apt=folder))
    apt = Apt(folder, "")
    if suite:
        mirror = _find_mirror(apt)
        lines = [f"deb [signed-by={_KEYRING}] {mirror} {each} main\n" for each in (RELEASE, suite)]
        (folder / "sources.list").write_text("".join(lines))
        (folder / "apt.conf").write_text((_CONFIGURATION + _OF_A_SUITE).format(apt=folder, suite=suite))
        apt = Apt(folder, suite)
    apt.update()
    yield apt
    shutil.rmtree(folder)


def _find_mirror(apt: Apt) -> str:
    """The URI that serves the release, in the machine's own sources."""
    found = re.search(rf"'(\S+)/dists/{RELEASE}/", apt.run("apt-get", "update", "--quiet=0", "--print-uris"))
    if found is not None:
        return found[1]
    raise UnavailableError(f"no source of this machine has the suite {RELEASE}")


def unpack(
    archive: Path, folder: Path, through: str = '| tar -x -C "$folder"', paths: Sequence[str] = ()
) -> None:
    """Unpack a package.

    Args:
        archive: file of the package.
        folder: where its files go.
        through: end of a pipeline, which finds `paths` in its arguments and the folder in `$folder`.
        paths: files of the package.

    Raises:
        UnavailableError: the package cannot be unpacked.
    """
    environment = {**os.environ, "archive": str(archive), "folder": str(folder)}
    command = ("sh", "-c", f'dpkg-deb --fsys-tarfile "$archive" {through}', "sh", *paths)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"{archive.name} can't be unpacked: {_first_line(done.stderr)}")


def unpack_paths(archive: Path, folder: Path, paths: Sequence[str]) -> None:
    """Unpack some paths of a package, which may be patterns.

    Raises:
        UnavailableError: the package cannot be unpacked, or it has no such path.
    """
    unpack(archive, folder, '| tar -x -C "$folder" --wildcards "$@"', paths)


def fetch_qemu(folder: Path, suite: str = "") -> None:
    """Unpack QEMU, and all that it needs, into a folder. See `open_apt`."""
    with open_apt(folder / ".apt", suite) as apt:
        for archive in apt.download_closure(_QEMU_PACKAGE):
            unpack(archive, folder)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
