"""Background tasks: a task that ends by itself is a failure, and a stop ends the wait for one."""

import asyncio

import pytest

from dradriver.aio.tasks import Background


async def test_a_task_that_is_cancelled_from_outside_is_a_failure() -> None:
    async def cancel() -> None:
        raise asyncio.CancelledError

    background = Background()
    background.start("discover", cancel())
    with pytest.raises(RuntimeError, match="discover"):
        await asyncio.wait_for(background.run_until(asyncio.Event()), 10)
    await background.stop()


async def test_run_until_returns_when_stop_is_set() -> None:
    background, stop = Background(), asyncio.Event()
    background.start("wait", asyncio.Event().wait())  # type: ignore[arg-type]
    asyncio.get_running_loop().call_soon(stop.set)
    await asyncio.wait_for(background.run_until(stop), 10)
    assert len(asyncio.all_tasks()) == 2  # this one, and the background's
    await background.stop()
