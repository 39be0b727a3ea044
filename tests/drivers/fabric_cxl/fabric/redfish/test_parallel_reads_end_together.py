"""Reads that run at the same time: all have ended when the caller goes on, and it is not canceled by them."""

import asyncio

import pytest

from dradriver_fabric_cxl.fabric import FabricError
from dradriver_fabric_cxl.fabric.redfish.service import gather_all


async def fail(error: Exception) -> None:
    await asyncio.sleep(0)
    raise error


async def never_end(log: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        log.append("ended")


async def give(number: int) -> int:
    for _ in range(3 - number):  # the first one ends last
        await asyncio.sleep(0)
    return number


async def test_results_have_the_order_of_the_calls() -> None:
    assert await gather_all([]) == []
    assert await gather_all(give(each) for each in range(3)) == [0, 1, 2]


async def test_a_failed_read_cancels_the_others_and_not_the_caller() -> None:
    log: list[str] = []
    with pytest.raises(FabricError, match="away"):
        await gather_all([never_end(log), fail(FabricError("away")), never_end(log)])
    assert log == ["ended", "ended"]
    # A later `asyncio.timeout` of the caller would end in `CancelledError`.
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_an_error_of_the_fabric_comes_before_another_one() -> None:
    with pytest.raises(FabricError, match="away"):
        await gather_all([fail(KeyError("body")), fail(FabricError("away"))])


async def test_a_canceled_caller_cancels_all_reads() -> None:
    log: list[str] = []
    caller = asyncio.create_task(gather_all([never_end(log), never_end(log)]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert log == ["ended", "ended"]
