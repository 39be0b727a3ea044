"""The suites on the kernel's own FPGA core, in a guest of QEMU's."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.drivers.fpga.guest.machine import Guest, make_guest
from tests.drivers.fpga.guest.packages import UnavailableError, missing

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
LIMIT = 240.0
"""Seconds until a guest is ended; it takes half a minute on two cores."""
ENVIRONMENT = {
    "PATH": f"{os.defpath}:/usr/sbin:/sbin",
    "PYTHONPATH": str(ROOT),
    "PYTHONDONTWRITEBYTECODE": "1",
    "TMPDIR": "/run/tmp",
    "HOME": "/run/tmp",
}
PLUGINS = (word for name in ("cacheprovider", "xdist", "hypothesispytest") for word in ("-p", f"no:{name}"))
OPTIONS = ("-v", "-rs", "--color", "no", "--noconftest", "--basetemp", "/run/suites", *PLUGINS)

Run = Callable[..., str]

pytestmark = [
    pytest.mark.guest,
    pytest.mark.timeout(900),  # fetching included
]


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Guest:
    if reason := missing():
        pytest.skip(reason)
    try:
        return make_guest(tmp_path_factory.mktemp("guest"))
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def run(guest: Guest, tmp_path: Path) -> Run:
    def run(*command: str, limit: float = LIMIT) -> str:
        variables = [f"{name}={text}" for name, text in ENVIRONMENT.items()]
        words = ("exec", "env", "-i", "-C", str(ROOT), *variables, *command)
        return guest.run(f"{shlex.join(words)}\n", tmp_path, limit)

    return run


def test_cards_programming_and_uevents(run: Run) -> None:
    assert run(sys.executable, "-m", "pytest", *OPTIONS, str(HERE / "suite_in_a_guest.py")) == "0"


def test_what_fails_in_the_guest_is_told(run: Run) -> None:
    assert run("sh", "-c", "exit 3") == "3"


def test_a_guest_whose_kernel_ends_tells_nothing_good(run: Run) -> None:
    assert not run("sh", "-c", "echo c > /proc/sysrq-trigger")


def test_a_guest_that_does_not_end_is_ended(run: Run) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run("sleep", "infinity", limit=1)
