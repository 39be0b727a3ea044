"""The cache of the guest's packages is complete after any failure."""

import multiprocessing
import os
import signal
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from tests.drivers.guest.cache import PackageCache, UnavailableError

CACHE = PackageCache("guest", "its packages")
SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return CACHE.folder


def fetch(folder: Path) -> None:
    folder.mkdir()
    (folder / "one").touch()
    (folder / "two").touch()


def fetch_and_break(folder: Path) -> None:
    folder.mkdir()
    (folder / "one").touch()
    raise UnavailableError("the mirror is gone")


def fetch_slowly(begun: Event, go_on: Event) -> None:
    def slowly(folder: Path) -> None:
        folder.mkdir()
        (folder / "one").touch()
        (folder / "by the first").touch()
        begun.set()
        go_on.wait()

    CACHE.get_or_fetch("kernel", slowly, "it slowly")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_cached_package_is_not_fetched_again(capsys: pytest.CaptureFixture[str]) -> None:
    first = CACHE.get_or_fetch("kernel", fetch, "it")
    assert CACHE.get_or_fetch("kernel", fetch_and_break, "it again") == first
    assert capsys.readouterr().out == "fetching it ...\n"


def test_a_download_that_breaks_leaves_nothing_that_counts(cache: Path) -> None:
    with pytest.raises(UnavailableError, match="the mirror is gone"):
        CACHE.get_or_fetch("kernel", fetch_and_break, "it")
    assert names(cache) == {"lock"}
    assert names(CACHE.get_or_fetch("kernel", fetch, "it")) == {"one", "two"}


def test_a_process_that_dies_leaves_nothing_that_counts(cache: Path) -> None:
    begun, never = SPAWN.Event(), SPAWN.Event()
    process = SPAWN.Process(target=fetch_slowly, args=(begun, never))
    process.start()
    begun.wait()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not (cache / "kernel").exists()
    assert names(CACHE.get_or_fetch("kernel", fetch, "it")) == {"one", "two"}
    assert names(cache) == {"kernel", "lock"}


def test_of_two_concurrent_calls_the_second_uses_the_result_of_the_first() -> None:
    begun, go_on, again = SPAWN.Event(), SPAWN.Event(), SPAWN.Event()
    first = SPAWN.Process(target=fetch_slowly, args=(begun, go_on))
    second = SPAWN.Process(target=fetch_slowly, args=(again, go_on))
    first.start()
    begun.wait()
    second.start()
    while f" {second.pid} " not in Path("/proc/locks").read_text():
        time.sleep(0.001)  # it has not come to the lock yet
    go_on.set()
    first.join()
    second.join()
    assert (first.exitcode, second.exitcode) == (0, 0)
    assert not again.is_set()
    assert names(CACHE.get_or_fetch("kernel", fetch, "it")) == {"one", "by the first"}
