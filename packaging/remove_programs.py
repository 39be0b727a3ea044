"""Remove from the root of an image what Python does not need: the shell, its programs, and package tools.

Runs as the last process of a stage of the Containerfile. The list of Debian packages stays for scanners.
"""

import shutil
from pathlib import Path
from typing import Final

PROGRAMS: Final = (
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/usr/libexec",
    "/bin",
    "/sbin",
)
KEPT: Final = ("python", "ldconfig")  # ctypes finds libraries, such as libudev, with ldconfig
FOLDERS: Final = (
    *("/etc/apt", "/etc/cron.daily", "/etc/dpkg", "/etc/init.d", "/etc/pam.d", "/etc/skel", "/root"),
    *(
        "/usr/games",
        "/usr/include",
        "/usr/lib/apt",
        "/usr/lib/dpkg",
        "/usr/lib/gcc",
        "/usr/lib/git-core",
        "/usr/src",
    ),
    *("/usr/share/bash-completion", "/usr/share/doc", "/usr/share/info", "/usr/share/locale", "/usr/share/man"),
    *("/usr/share/perl", "/usr/share/perl5", "/var/cache", "/var/lib/apt", "/var/lib/dpkg/info", "/var/log"),
)


def remove_contents(folder: Path) -> None:
    for each in folder.iterdir() if folder.is_dir() else ():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()


def main() -> None:
    for folder in map(Path, PROGRAMS):
        for each in [] if folder.is_symlink() or not folder.is_dir() else list(folder.iterdir()):
            # python3-config is a script of the shell.
            kept = each.name.startswith(KEPT) and not each.name.endswith("-config")
            if not kept and not each.is_dir():
                each.unlink()
    for name in FOLDERS:
        remove_contents(Path(name))
    for package in Path("/usr/local/lib").glob("python3*/site-packages/pip*"):
        shutil.rmtree(package)
    Path(__file__).unlink()


if __name__ == "__main__":
    main()
