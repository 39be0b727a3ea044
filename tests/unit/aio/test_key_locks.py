"""A lock for each key takes memory only while it is used."""

import asyncio

import pytest

from dradriver.aio.key_locks import KeyLocks


async def hold(locks: KeyLocks, key: str, order: list[str], name: str, go: asyncio.Event) -> None:
    async with locks.hold(key):
        order.append(name)
        await go.wait()


async def test_tasks_hold_the_lock_of_a_key_one_after_the_other() -> None:
    locks, order, go = KeyLocks(), list[str](), asyncio.Event()
    tasks = [asyncio.create_task(hold(locks, "a", order, name, go)) for name in ("first", "second", "third")]
    await asyncio.sleep(0)
    assert order == ["first"]
    assert "a" in locks
    go.set()
    await asyncio.gather(*tasks)
    assert order == ["first", "second", "third"]
    assert len(locks) == 0


async def test_locks_of_different_keys_do_not_wait_for_each_other() -> None:
    locks = KeyLocks()
    async with locks.hold("a"), locks.hold("b"):
        assert len(locks) == 2
    assert "a" not in locks


async def test_a_task_that_is_cancelled_while_it_waits_leaves_the_lock_to_the_next_task() -> None:
    locks, order, go = KeyLocks(), list[str](), asyncio.Event()
    tasks = [asyncio.create_task(hold(locks, "a", order, name, go)) for name in ("first", "second", "third")]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.sleep(0)
    assert "a" in locks
    go.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["first", "third"]
    assert len(locks) == 0


async def test_an_error_releases_the_lock() -> None:
    locks = KeyLocks()
    with pytest.raises(ValueError, match="wrong"):
        async with locks.hold("a"):
            raise ValueError("wrong")
    assert len(locks) == 0
