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
GO_BASE: Final = "localhost/dradriver-release-go"
GO: Final = shutil.which("go")
IMAGE: Final = "localhost/dradriver-release-check"
LIMITS: Final = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024")
"""Podman's defaults can be higher than the machine permits."""
RUNTIME: Final = ("--runtime=runc",) if shutil.which("runc") else ()
pytestmark = [
    pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed"),
    pytest.mark.skipif(GO is None, reason="Go is not installed, which NVIDIA's hook in the image is built by"),
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


def make_bases() -> None:
    """Import the Debian root twice: with the compiler, and without it."""
    made = subprocess.run(
        ("sh", "release/debian-13.sh", "true"), cwd=ROOT, capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(made.stderr.strip())
    folders = ("./proc", "./sys", "./dev", "./root")
    import_root(GO_BASE, folders)
    import_root(BASE, (*folders, "./usr/lib/gcc"))


def import_root(name: str, left_out: tuple[str, ...]) -> None:
    command = ("tar", "-C", str(DEBIAN), *(f"--exclude={each}/*" for each in left_out), "-c", ".")
    with subprocess.Popen(command, stdout=subprocess.PIPE) as tar:
        subprocess.run(("podman", "import", "-", name), stdin=tar.stdout, capture_output=True, check=True)


def use_go() -> tuple[str, ...]:
    """Return options that lend the machine's Go, with what it has downloaded, to the stage that needs it."""
    names = ("GOROOT", "GOMODCACHE", "GOPROXY", "GOSUMDB")
    done = subprocess.run(("go", "env", *names), capture_output=True, text=True, check=True)
    root, modules, proxy, sums = done.stdout.split("\n")[:4]
    Path(modules).mkdir(parents=True, exist_ok=True)
    lent = (f"--volume={root}:/usr/local/go:ro", f"--volume={modules}:/root/go/pkg/mod")
    path = "/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return (*lent, f"--env=PATH={path}", f"--env=GOPROXY={proxy}", f"--env=GOSUMDB={sums}")


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """Return the name of the image."""
    make_bases()
    # The machine may trust more authorities than the base, such as that of a proxy.
    trust = (f"--volume={BUNDLE}:{BUNDLE}:ro", f"--env=PIP_CERT={BUNDLE}") if BUNDLE.exists() else ()
    options = (*LIMITS, "--isolation=chroot", "--network=host", *trust, f"--build-arg=PYTHON={BASE}")
    options += (f"--build-arg=GO={GO_BASE}", *use_go())
    podman("build", *options, "--file=packaging/Containerfile", f"--tag={IMAGE}", ".")
    yield IMAGE
    podman("rmi", "--force", IMAGE, BASE, GO_BASE)


def test_it_starts_without_privileges(image: str) -> None:
    done = run_image(image, "--version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("dradriver")


def test_nvidias_hook_can_be_run(image: str) -> None:
    done = run_image("--entrypoint=/opt/dradriver/libexec/nvidia-cdi-hook", image, "--help")
    assert done.returncode == 0, done.stderr
    assert "update-ldcache" in done.stdout


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
