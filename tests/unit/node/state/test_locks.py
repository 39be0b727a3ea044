"""One holder a claim, in one process and across processes."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from dradriver.node.state.locks import ClaimLocks


async def held(locks: ClaimLocks, uid: str) -> bool:
    """Whether somebody has the lock."""
    try:
        async with asyncio.timeout(0.02), locks.hold(uid):
            return False
    except TimeoutError:
        return True


@pytest.mark.parametrize("same_process", [True, False])
async def test_a_claim_has_one_holder(tmp_path: Path, same_process: bool) -> None:
    """Two open files stand for two processes: these locks belong to open files, not to processes."""
    one = ClaimLocks(tmp_path / "lock")
    two = one if same_process else ClaimLocks(tmp_path / "lock")
    async with one.hold("uid-1"):
        assert await held(two, "uid-1")
        assert not await held(two, "uid-2")
    assert not await held(two, "uid-1")
    for locks in {one, two}:
        locks.close()


async def test_a_close_takes_no_lock_from_work_that_was_left_behind(tmp_path: Path) -> None:
    one, two = ClaimLocks(tmp_path / "lock"), ClaimLocks(tmp_path / "lock")
    async with one.hold("uid-1"):
        one.close()
        assert await held(two, "uid-1")
    assert not await held(two, "uid-1")
    one.close()
    two.close()


async def test_a_lock_whose_process_is_killed_is_free(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys; from pathlib import Path; from dradriver.node.state.locks import ClaimLocks\n"
        "async def main():\n"
        "    async with ClaimLocks(Path(sys.argv[1])).hold('uid-1'):\n"
        "        print('held', flush=True); await asyncio.Event().wait()\n"
        "asyncio.run(main())"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(tmp_path / "lock"), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    locks = ClaimLocks(tmp_path / "lock")
    assert await held(locks, "uid-1")
    process.kill()
    await process.wait()
    async with locks.hold("uid-1"):
        pass
    locks.close()


async def test_a_waiter_that_gives_up_leaves_the_lock_as_it_is(tmp_path: Path) -> None:
    locks = ClaimLocks(tmp_path / "lock")
    async with locks.hold("uid-1"):
        assert await held(locks, "uid-1")
        assert await held(locks, "uid-1")
    async with locks.hold("uid-1"):
        pass
    locks.close()


async def test_a_lock_is_taken_without_waiting_only_while_nobody_has_it(tmp_path: Path) -> None:
    one, two = ClaimLocks(tmp_path / "lock"), ClaimLocks(tmp_path / "lock")
    async with one.hold("uid-1"):
        for locks in (one, two):
            async with locks.hold_if_free("uid-1") as free:
                assert not free
        assert await held(two, "uid-1"), "looking does not take it away"
    async with two.hold_if_free("uid-1") as free:
        assert free
        assert await held(one, "uid-1")
    assert not await held(one, "uid-1")
    one.close()
    two.close()
