"""Each claim's lock has one holder, in one process and across processes."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from dradriver.node.state.locks import ClaimLocks


async def is_held(locks: ClaimLocks, uid: str) -> bool:
    """Return whether the lock is held, as far as a short wait can tell."""
    try:
        async with asyncio.timeout(0.02), locks.hold(uid):
            return False
    except TimeoutError:
        return True


async def take(locks: ClaimLocks, uid: str) -> None:
    """Take a lock that must be free, and release it. The test's time limit ends a wait for a held lock."""
    async with locks.hold(uid):
        pass


@pytest.mark.parametrize("same_process", [True, False])
async def test_a_claim_has_one_holder(tmp_path: Path, same_process: bool) -> None:
    """Two open files stand for two processes: these locks belong to open files, not to processes."""
    one = ClaimLocks(tmp_path / "lock")
    two = one if same_process else ClaimLocks(tmp_path / "lock")
    async with one.hold("uid-1"):
        assert await is_held(two, "uid-1")
        await take(two, "uid-2")
    await take(two, "uid-1")
    for locks in {one, two}:
        locks.close()


async def test_a_close_keeps_the_lock_of_abandoned_work(tmp_path: Path) -> None:
    one, two = ClaimLocks(tmp_path / "lock"), ClaimLocks(tmp_path / "lock")
    async with one.hold("uid-1"):
        one.close()
        assert await is_held(two, "uid-1")
    await take(two, "uid-1")
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
    assert await is_held(locks, "uid-1")
    process.kill()
    await process.wait()
    async with locks.hold("uid-1"):
        pass
    locks.close()


async def test_a_waiter_that_gives_up_leaves_the_lock_as_it_is(tmp_path: Path) -> None:
    locks = ClaimLocks(tmp_path / "lock")
    async with locks.hold("uid-1"):
        assert await is_held(locks, "uid-1")
        assert await is_held(locks, "uid-1")
    async with locks.hold("uid-1"):
        pass
    locks.close()


async def test_hold_if_free_takes_only_a_free_lock(tmp_path: Path) -> None:
    one, two = ClaimLocks(tmp_path / "lock"), ClaimLocks(tmp_path / "lock")
    async with one.hold("uid-1"):
        for locks in (one, two):
            async with locks.hold_if_free("uid-1") as free:
                assert not free
        assert await is_held(two, "uid-1"), "looking does not take it away"
    async with two.hold_if_free("uid-1") as free:
        assert free
        assert await is_held(one, "uid-1")
    await take(one, "uid-1")
    one.close()
    two.close()
