"""CXL memory of a kernel in a QEMU guest, into which it is plugged as into a host of a fabric."""

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.drivers.fabric_cxl.emulator_process import EmulatorProcess, ManagerFiles
from tests.drivers.fabric_cxl.guest.machine import HOST, LOOPBACK, MOUNT_OUT, make_guest, make_options
from tests.drivers.fabric_cxl.guest.packages import find_missing
from tests.drivers.fabric_cxl.guest.qmp_hook import write_hook
from tests.drivers.guest.cache import UnavailableError
from tests.drivers.guest.machine import LIMIT, Guest, write_command
from tests.drivers.guest.suites import suite_command
from tests.interop.oracle import GO, build

HERE = Path(__file__).parent
CDI_READER = HERE.parents[2] / "interop" / "cdi"
DRIVER = HERE.parents[3] / "drivers" / "fabric_cxl"

Run = Callable[..., str]

pytestmark = [
    pytest.mark.guest,
    pytest.mark.timeout(900),  # fetching included
]


@pytest.fixture(scope="module")
def guest() -> Guest:
    if reason := find_missing():
        pytest.skip(reason)
    try:
        return make_guest()
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def run(guest: Guest, folder: Path) -> Run:
    def run(*command: str, **variables: str) -> str:
        suite = MOUNT_OUT + write_command(command, [DRIVER], **variables)
        return guest.run(suite, folder, 3 * LIMIT, *make_options(folder))

    return run


def test_memory_is_plugged_used_and_unplugged(run: Run) -> None:
    assert run(*suite_command(HERE / "kernel_in_a_guest.py")) == "0"


@pytest.mark.parametrize("suite", ["memory_in_a_guest.py", "deaths_in_a_guest.py"])
def test_memory_of_the_kernel_keeps_the_contract(run: Run, suite: str) -> None:
    assert run(*suite_command(HERE / suite, "--timeout", "600")) == "0"


def test_claims_get_memory_of_a_fabric(run: Run, folder: Path) -> None:
    """The fabric's manager is an emulator on the host. Its hook plugs memory into the guest."""
    files = ManagerFiles(folder / "manager", LOOPBACK)
    hook = write_hook(folder / "emulators-hook", {HOST: folder / "qmp"})
    emulator = EmulatorProcess(files, ["--hosts", "1", "--no-accelerator", "--hook", str(hook)])
    emulator.start()
    try:
        port = emulator.url.rpartition(":")[2]
        variables = {"MANAGER": f"https://{LOOPBACK}:{port}", "MANAGER_FILES": str(files.folder)}
        suite = suite_command(HERE / "claims_in_a_guest.py", "--timeout", "300")
        assert run(*suite, **variables) == "0"
    finally:
        emulator.kill()
    check_by_go(folder / "out" / "cdi", folder)


def check_by_go(specs: Path, folder: Path) -> None:
    """Check that the library of container runtimes gives the character device to containers."""
    paths = sorted(specs.iterdir())
    assert len(paths) == 2
    if GO is None:
        pytest.skip("Go is not installed, so nobody else reads the CDI specs")
    reader = build(CDI_READER, folder)
    for path in paths:
        spec = json.loads(path.read_text())
        names = [f"{spec['kind']}={device['name']}" for device in spec["devices"]]
        done = subprocess.run(
            (str(reader), str(specs), *names), input="{}", stdout=subprocess.PIPE, text=True, check=True
        )
        [node] = json.loads(done.stdout)["linux"]["devices"]
        assert (node["path"], node["type"]) == ("/dev/cxl/domain-1-host-1-256-0", "c")
