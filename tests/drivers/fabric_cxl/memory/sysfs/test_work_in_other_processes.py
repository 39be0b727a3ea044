"""Work that hangs or dies does neither to the driver."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dradriver_fabric_cxl.memory import CxlMemoryError
from dradriver_fabric_cxl.memory.sysfs import programs
from dradriver_fabric_cxl.memory.sysfs.programs import clear_device, write_all
from dradriver_fabric_cxl.memory.sysfs.users import find_user

SIZE = 40 << 20


@pytest.fixture
def device(tmp_path: Path) -> Path:
    device = tmp_path / "dax0.0"
    device.write_bytes(b"data")
    os.truncate(device, SIZE)
    return device


def test_each_attribute_is_written(tmp_path: Path) -> None:
    files = [tmp_path / "one", tmp_path / "other"]
    for file in files:
        file.touch()
    assert write_all("offline", files, 30) == 0
    assert [file.read_text() for file in files] == ["offline", "offline"]


def test_the_first_failed_write_ends_the_work(tmp_path: Path) -> None:
    last = tmp_path / "last"
    last.touch()
    assert write_all("offline", [tmp_path / "missing", last], 30) == errno.ENOENT
    assert last.read_text() == ""


def test_a_write_that_does_not_end_is_given_up(tmp_path: Path) -> None:
    """A pipe that nobody reads blocks its writer."""
    os.mkfifo(tmp_path / "state")
    assert write_all("offline", [tmp_path / "state"], 0.1) is None


def test_a_device_is_cleared(device: Path) -> None:
    cleared: list[int] = []
    assert clear_device(device, SIZE, lambda each: not cleared.append(each))  # type: ignore[func-returns-value]
    assert cleared[-1] == SIZE
    assert device.read_bytes()[:4] == bytes(4)


def test_clearing_a_device_can_be_stopped(device: Path) -> None:
    assert not clear_device(device, SIZE, lambda _: False)


def test_a_device_that_is_missing_cannot_be_cleared(tmp_path: Path) -> None:
    with pytest.raises(CxlMemoryError, match="No such file"):
        clear_device(tmp_path / "dax0.0", SIZE, lambda _: True)


def test_a_device_that_is_pulled_while_it_is_cleared_ends_the_work(
    device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mapped file that becomes shorter sends the signal that memory sends when it disappears."""
    # Reports of such small chunks fill the pipe long before the end, so the clearing waits for this process.
    monkeypatch.setattr(programs, "_CHUNK", 1 << 10)

    def pull(_: int) -> bool:
        os.truncate(device, 0)
        return True

    with pytest.raises(CxlMemoryError, match="SIGBUS"):
        clear_device(device, SIZE, pull)


@pytest.fixture
def terminal() -> Iterator[int]:
    """A character device that only this process has open."""
    master, slave = os.openpty()
    yield slave
    os.close(master)


def test_a_program_with_an_open_device_is_found(tmp_path: Path, terminal: int) -> None:
    (tmp_path / str(os.getpid())).symlink_to("/proc/self")
    number = os.fstat(terminal).st_rdev
    assert f"process {os.getpid()}" in find_user(tmp_path, number)
    os.close(terminal)
    assert find_user(tmp_path, number) == ""
