"""Uevents through libudev, in separate processes: in a network namespace, and under umockdev."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(180)

HERE = Path(__file__).parent
ROOT = HERE.parents[4]
WRAPPER = shutil.which("umockdev-wrapper")


def may_make_namespaces() -> bool:
    unshare = shutil.which("unshare")
    return unshare is not None and subprocess.run([unshare, "-Urn", "true"], check=False).returncode == 0


def run_suite(wrapper: list[str], file: str, tmp_path: Path) -> None:
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--noconftest",
        "--basetemp",
        str(tmp_path / "suite"),
    ]
    command = [*wrapper, sys.executable, "-m", "pytest", *options, str(HERE / file)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not may_make_namespaces(), reason="this kernel lets nobody make a network namespace")
def test_uevents_of_the_kernel(tmp_path: Path) -> None:
    run_suite(["unshare", "-Urn"], "suite_in_a_namespace.py", tmp_path)


@pytest.mark.skipif(WRAPPER is None, reason="umockdev is not installed (Debian: apt-get install umockdev)")
def test_cards_and_uevents_of_umockdev(tmp_path: Path) -> None:
    run_suite([str(WRAPPER)], "suite_in_umockdev.py", tmp_path)
