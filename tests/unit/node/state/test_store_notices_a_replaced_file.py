"""Two instances on one state file, which one of them, or an admin, replaces while the other one runs."""

import asyncio
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from dradriver.node.errors import IncompleteStateError, StateError
from dradriver.node.reporting.status import node_status
from dradriver.node.state.claim_states import ClaimEvent, ClaimState
from dradriver.node.state.records import ClaimRecord
from dradriver.node.state.rows import Rows
from dradriver.node.state.store import StateStore
from tests.unit.node.world import Process, World, allocated, ref


async def opened(path: Path) -> StateStore:
    state = StateStore(path, "boot-1")
    await state.open()
    return state


async def begin(state: StateStore, uid: str) -> None:
    await state.write(lambda rows: rows.move(ClaimRecord(uid=uid), ClaimEvent.BEGIN_PREPARE))


async def uids(state: StateStore) -> set[str]:
    return {row.uid for row in await state.read(Rows.all)}


def set_aside(path: Path) -> None:
    for part in path.parent.glob(f"{path.name}*"):
        if not part.name.endswith(".lock"):
            part.rename(part.with_name(f"old-{part.name}"))


@pytest.mark.parametrize("how", ["renamed", "removed"])
async def test_both_instances_write_into_the_new_file(tmp_path: Path, how: str) -> None:
    path = tmp_path / "state.db"
    one = await opened(path)
    await begin(one, "before")
    if how == "renamed":
        set_aside(path)
    else:
        path.unlink()
    two = await opened(path)
    await begin(two, "two")
    await begin(one, "one")
    assert await uids(one) == await uids(two) == {"one", "two"}
    await asyncio.gather(one.close(), two.close())


CHILD = """
import asyncio, sys
from pathlib import Path
from dradriver.node.state.claim_states import ClaimEvent
from dradriver.node.state.records import ClaimRecord
from dradriver.node.state.store import StateStore

async def main():
    state = StateStore(Path(sys.argv[1]), "boot-1")
    await state.open()
    await state.write(lambda rows: rows.move(ClaimRecord(uid="child"), ClaimEvent.BEGIN_PREPARE))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await state.write(lambda rows: rows.move(ClaimRecord(uid="child again"), ClaimEvent.BEGIN_PREPARE))
    await state.close()

asyncio.run(main())
"""


async def test_another_process_notices_that_this_one_set_the_file_aside(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CHILD, str(path)), stdin=pipe, stdout=pipe
    )
    assert child.stdout is not None
    assert await child.stdout.readline() == b"ready\n"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 1000")  # as a newer version would leave it
    state = await opened(path)
    await begin(state, "parent")
    await child.communicate(b"\n")
    assert child.returncode == 0
    assert await uids(state) == {"parent", "child again"}
    await state.close()
    assert len(node_status(tmp_path).set_aside) == 1


async def test_a_running_instance_sets_a_damaged_file_aside(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    state = await opened(path)
    for n in range(50):
        await begin(state, f"uid-{n}")
    await state.close()
    state = await opened(path)
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("DELETE FROM claims WHERE uid = 'uid-7'")  # what was read before is read again
    with path.open("r+b") as file:
        file.write(b"x" * path.stat().st_size)
    with pytest.raises(StateError):
        await state.read(Rows.all)
    assert await uids(state) == set()
    await state.close()


async def test_a_file_that_cannot_be_opened_again_is_an_error_until_it_can(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "state.db"
    state = await opened(path)
    set_aside(path)
    folder.rename(tmp_path / "away")
    with pytest.raises(StateError, match=r"state\.db.*No such file"):
        await begin(state, "one")
    (tmp_path / "away").rename(folder)
    await begin(state, "one")
    assert await uids(state) == {"one"}
    await state.close()


async def prepared_then_replaced(world: World, process: Process) -> None:
    await process.prepare(world.api.add(allocated("claim", "lamp-0")))
    set_aside(world.state_file)


async def test_nothing_is_prepared_on_a_replaced_file_until_it_is_rebuilt(world: World) -> None:
    async with world.running() as process:
        await prepared_then_replaced(world, process)
        rival = allocated("rival", "lamp-0")
        with pytest.raises(IncompleteStateError, match=r"was replaced .* call again"):
            await process.prepare(rival)
        assert not process.claims.state_complete.is_set()
        await process.rebuilder.ensure_complete()
        with pytest.raises(Exception, match="is prepared for claim default/claim"):
            await process.prepare(rival)
        assert [row.state for row in await process.rows()] == [ClaimState.PREPARED]


async def test_a_replaced_file_does_not_orphan_cdi_specs(world: World) -> None:
    async with world.running() as process:
        await prepared_then_replaced(world, process)
        specs = world.specs()
        await process.reconciler.sweep()
        assert world.specs() == specs


async def test_a_replaced_file_is_rebuilt_without_a_request(world: World) -> None:
    async with world.running() as process:
        await prepared_then_replaced(world, process)
        running = asyncio.create_task(process.reconciler.run(300, 0.01))
        while not await process.rows():
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert world.specs()


async def test_a_call_that_waits_for_the_rebuild_does_not_delay_it(world: World) -> None:
    async with world.running() as process:
        await prepared_then_replaced(world, process)
        with pytest.raises(IncompleteStateError):
            await process.prepare(allocated("rival", "lamp-1"))
        (claim,) = world.api.claims.values()
        waiting = asyncio.create_task(process.prepare(claim, 3600))
        leaving = asyncio.create_task(process.unprepare(ref(claim), 3600))
        await asyncio.sleep(0)
        await asyncio.wait_for(process.rebuilder.ensure_complete(), 20)
        assert await waiting
        await leaving
