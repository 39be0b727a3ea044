"""Programs that a real node needs from its machine.

`python -m tests.e2e.host` prepares a machine: it installs Debian's packages where it can, and builds the
programs.
"""

import os
import shutil
import subprocess
import sys
from typing import Final

from tests.e2e.bed import cgroups, programs
from tests.e2e.bed.nodes import images

PACKAGES: Final = {
    "runc": "runc", "ip": "iproute2", "mount": "mount", "unshare": "util-linux", "nsenter": "util-linux",
    "setpriv": "util-linux",
    "busybox": "busybox-static",
}  # fmt: skip
"""Program -> the Debian package that has it."""


def _absent_programs() -> list[str]:
    """Return the programs that are not installed."""
    return [
        name
        for name in PACKAGES
        if (images.busybox_program() if name == "busybox" else shutil.which(name)) is None
    ]


def missing() -> str:
    """Return the reason why no real node can run on this machine, "" if one can."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "a real node takes root on Linux"
    if absent := _absent_programs():
        packages = " ".join(sorted({PACKAGES[name] for name in absent}))
        return f"not installed: {', '.join(absent)} (Debian: apt-get install {packages})"
    if not (cgroups.ROOT / "pids").exists() and not (cgroups.ROOT / "cgroup.procs").exists():
        return f"a real node takes control groups, and {cgroups.ROOT} has none"
    if subprocess.run(("unshare", "--mount", "true"), check=False, capture_output=True).returncode != 0:
        return "a real node takes a mount namespace, and unshare could not make one"
    return programs.missing(*programs.CONTROL_PLANE, *programs.SCHEDULING, *programs.NODE, "kubectl")


def install() -> None:
    """Install missing packages as root on Debian; elsewhere a no-op."""
    absent = _absent_programs()
    if not absent or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    packages = sorted({PACKAGES[name] for name in absent})
    print(f"installing {' '.join(packages)}, which a real node needs", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    get = ("apt-get", "-qq")
    for command in ((*get, "update"), (*get, "install", "--yes", "--no-install-recommends", *packages)):
        subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL)


def main() -> None:
    """Prepare the machine and print what stays missing."""
    install()
    for name in programs.PROGRAMS:
        if not programs.missing(name):
            programs.program(name)
    if reason := missing():
        print(f"without a real node: {reason}", flush=True)


if __name__ == "__main__":
    main()
