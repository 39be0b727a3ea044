"""A change is complete in the file, or it has not happened."""

import os
import signal
from pathlib import Path

import pytest

from dradriver_fabric_cxl.emulator.storage import State, Storage
from tests.drivers.processes import run_forked


async def test_a_change_is_in_the_file_before_readers_see_it(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    storage = Storage(file)
    seen: list[bool] = []
    storage.listeners.append(lambda _before, _after: seen.append('"/a"' in file.read_text()))
    async with storage.change() as state:
        state.resources["/a"] = {}
        assert "/a" not in storage.state.resources
    assert seen == [True]
    assert "/a" in storage.state.resources


async def test_a_change_that_fails_has_no_effect(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "state.json")
    with pytest.raises(ValueError, match="refused"):
        await _refuse(storage)
    assert storage.state == State()
    assert not (tmp_path / "state.json").exists()


async def _refuse(storage: Storage) -> None:
    async with storage.change() as state:
        state.resources["/a"] = {}
        raise ValueError("refused")


async def test_a_state_without_a_file_is_kept_in_memory() -> None:
    storage = Storage(None)
    await storage.load()
    async with storage.change() as state:
        assert state.next_number() == 1
    assert storage.state.counter == 1


async def test_a_kill_while_the_file_is_written_leaves_the_previous_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "state.json"
    storage = Storage(file)
    async with storage.change() as state:
        state.next_number()

    def die() -> None:
        monkeypatch.setattr(Path, "replace", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        Storage._replace(file, b"half")

    assert run_forked(die) == -9
    read = Storage(file)
    await read.load()
    assert read.state.counter == 1
