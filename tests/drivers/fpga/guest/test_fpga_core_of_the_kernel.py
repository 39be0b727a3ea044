"""The suites on the kernel's own FPGA core, in a QEMU guest."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.drivers.fpga.guest.machine import make_guest
from tests.drivers.fpga.guest.packages import find_missing
from tests.drivers.guest.cache import UnavailableError
from tests.drivers.guest.machine import LIMIT, Guest, write_command
from tests.drivers.guest.suites import suite_command

HERE = Path(__file__).parent

Run = Callable[..., str]

pytestmark = [
    pytest.mark.guest,
    pytest.mark.timeout(900),  # fetching included
]


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Guest:
    if reason := find_missing():
        pytest.skip(reason)
    try:
        return make_guest(tmp_path_factory.mktemp("guest"))
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def run(guest: Guest, tmp_path: Path) -> Run:
    def run(*command: str, limit: float = LIMIT) -> str:
        return guest.run(write_command(command), tmp_path, limit)

    return run


def test_cards_programming_and_uevents(run: Run) -> None:
    assert run(*suite_command(HERE / "suite_in_a_guest.py")) == "0"


def test_a_failure_in_the_guest_is_reported(run: Run) -> None:
    assert run("sh", "-c", "exit 3") == "3"


def test_a_guest_whose_kernel_panics_has_no_exit_status(run: Run) -> None:
    assert not run("sh", "-c", "echo c > /proc/sysrq-trigger")


def test_a_guest_that_does_not_end_is_ended(run: Run) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run("sleep", "infinity", limit=1)
