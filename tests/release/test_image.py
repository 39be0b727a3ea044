"""The container image is built and started by podman, on a base that is made of the Debian 13 root."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dradriver"
DEBIAN: Final = CACHE / "debian-13" / "root"
BUNDLE: Final = Path("/etc/ssl/certs/ca-certificates.crt")
BASE: Final = "localhost/dradriver-release-base"
IMAGE: Final = "localhost/dradriver-release-check"
LIMITS: Final = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024")
"""Podman's defaults can be higher than the machine permits."""
RUNTIME: Final = ("--runtime=runc",) if shutil.which("runc") else ()
pytestmark = [
    pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the Debian root"),
    pytest.mark.timeout(900),
]


def podman(*arguments: str | Path) -> str:
    """Run podman, which must succeed; return its output."""
    done = subprocess.run(("podman", *arguments), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_image(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a container of the image as the chart does: without network, and with a read-only root."""
    options = (*RUNTIME, *LIMITS, "--rm", "--pull=never", "--network=none", "--read-only", "--cap-drop=all")
    return subprocess.run(
        ("podman", "run", *options, *arguments), capture_output=True, text=True, check=False, timeout=120
    )


def make_base() -> None:
    """Import the Debian root, without the compiler that only tests need."""
    made = subprocess.run(
        ("sh", "release/debian-13.sh", "true"), cwd=ROOT, capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(made.stderr.strip())
    left_out = ("./proc", "./sys", "./dev", "./usr/lib/gcc", "./root")
    command = ("tar", "-C", str(DEBIAN), *(f"--exclude={each}/*" for each in left_out), "-c", ".")
    with subprocess.Popen(command, stdout=subprocess.PIPE) as tar:
        subprocess.run(("podman", "import", "-", BASE), stdin=tar.stdout, capture_output=True, check=True)


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """Return the name of the image."""
    make_base()
    # The machine may trust more authorities than the base, such as that of a proxy.
    trust = (f"--volume={BUNDLE}:{BUNDLE}:ro", f"--env=PIP_CERT={BUNDLE}") if BUNDLE.exists() else ()
    options = (*LIMITS, "--isolation=chroot", "--network=host", *trust, f"--build-arg=PYTHON={BASE}")
    podman("build", *options, "--file=packaging/Containerfile", f"--tag={IMAGE}", ".")
    yield IMAGE
    podman("rmi", "--force", IMAGE, BASE)


def test_it_starts_without_privileges(image: str) -> None:
    done = run_image(image, "--version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("dradriver")


def test_each_driver_is_installed(image: str) -> None:
    shown = run_image(image, "run", "--help").stdout.rpartition("Installed drivers:")[2]
    assert shown.split() == ["fabric-cxl,", "fabric-cxl-pools,", "fpga,", "gpu-mig,", "loop."]


def test_its_user_is_not_root_and_it_has_no_other_program(image: str) -> None:
    code = """
import os
assert os.getuid() == 65532
programs = {name for folder in ("/usr/bin", "/usr/sbin", "/usr/local/bin") for name in os.listdir(folder)}
assert all(name.startswith(("python", "ldconfig")) for name in programs), programs
import pyudev; pyudev.Context()
"""
    done = run_image("--entrypoint=python", image, "-c", code)
    assert done.returncode == 0, done.stderr


def test_a_shell_cannot_be_started(image: str) -> None:
    assert run_image("--entrypoint=/bin/sh", image, "-c", "true").returncode == 127
