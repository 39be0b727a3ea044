"""A record outlives versions: a later version's is left alone, a damaged one is moved aside."""

import asyncio
import fcntl
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from dradriver import DraError
from dradriver_gpu_mig.files import BusyError
from dradriver_gpu_mig.mps import DaemonState, MpsDaemon, MpsDaemonStore, SimulatedMpsHost
from dradriver_gpu_mig.mps.steps import ObservedDaemon
from tests.drivers.gpu_mig.mps.benches import SimulatedBench, make_daemon, open_daemons

CLAIM = "claim-1"


def rewrite(folder: Path, **changes: object) -> str:
    path = folder / CLAIM / "daemon.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path.read_text()


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    store = MpsDaemonStore(tmp_path)
    record = MpsDaemon(claim=CLAIM, devices=("GPU-1",), memory_limits={"GPU-1": 7}, state=DaemonState.READY)
    store.put(record)
    assert MpsDaemonStore(tmp_path).get(CLAIM) == record
    (tmp_path / "claim-2").mkdir()
    assert store.claims() == {CLAIM, "claim-2"}
    store.delete(CLAIM)
    assert store.claims() == {"claim-2"}


@pytest.mark.parametrize("change", [{"version": 2}, {"nice": 3}])
async def test_a_record_of_a_later_version_changes_nothing(tmp_path: Path, change: dict[str, int]) -> None:
    bench = SimulatedBench(tmp_path)
    daemons = open_daemons(bench)
    await daemons.start(make_daemon(CLAIM))
    content = rewrite(bench.folder, **change)
    for action in (daemons.start(make_daemon(CLAIM, limit=1)), daemons.stop(CLAIM)):
        with pytest.raises(DraError, match="was written by a later version"):
            await action
    bench.end(CLAIM)
    assert await daemons.recover({CLAIM}) == []
    assert (bench.folder / CLAIM / "daemon.json").read_text() == content
    assert bench.host().observe(CLAIM) is ObservedDaemon.MOUNTED


async def test_a_damaged_record_is_moved_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bench = SimulatedBench(tmp_path)
    await open_daemons(bench).start(make_daemon(CLAIM))
    (bench.folder / CLAIM / "daemon.json").write_text("{")
    with caplog.at_level(logging.ERROR):
        assert await open_daemons(bench).recover({CLAIM}) == []
    assert "is damaged and was moved" in caplog.text
    assert bench.remains(CLAIM) == [str(bench.folder / f"{CLAIM}.damaged")]


@pytest.mark.parametrize("claim", ["", "..", "a/b"])
async def test_a_uid_that_is_no_file_name_is_rejected(tmp_path: Path, claim: str) -> None:
    with pytest.raises(DraError, match="is not the UID of a claim"):
        await open_daemons(SimulatedBench(tmp_path)).stop(claim)


async def test_a_lock_whose_file_is_removed_while_it_is_taken_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, flock = MpsDaemonStore(tmp_path), fcntl.flock
    removed: list[str] = []

    def remove_and_lock(file: Any, operation: int) -> None:
        if not removed:
            store.remove_lock(CLAIM)  # as the previous holder does between the opening and the lock
            removed.append(CLAIM)
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", remove_and_lock)
    async with store.lock(CLAIM):
        with pytest.raises(BusyError):
            async with store.lock(CLAIM, wait=False):
                pass
    assert removed


async def test_calls_that_wait_for_a_lock_get_it_one_after_the_other(tmp_path: Path) -> None:
    bench = SimulatedBench(tmp_path)
    daemons = open_daemons(bench)
    for _ in range(3):
        await asyncio.gather(*(daemons.start(make_daemon(CLAIM)) for _ in range(2)), daemons.stop(CLAIM))
    await daemons.stop(CLAIM)
    assert bench.remains(CLAIM) == []
    assert SimulatedMpsHost(bench.folder).observe(CLAIM) is ObservedDaemon.NOTHING
