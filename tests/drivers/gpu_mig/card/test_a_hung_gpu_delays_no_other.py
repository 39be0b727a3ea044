"""Each call has a time limit, and each GPU a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from dradriver_gpu_mig.card import GpuCards, GpuHardware, TimedOutError
from dradriver_gpu_mig.card.simulator import SimulatedGpus

_SECONDS = 1.0


@pytest.fixture
def released() -> threading.Event:
    return threading.Event()


@pytest.fixture
async def cards(released: threading.Event) -> AsyncIterator[GpuCards]:
    async with GpuCards(SimulatedGpus(["a100-40", "a100-40"]), seconds=_SECONDS) as cards:
        yield cards
        released.set()


def _hang(released: threading.Event) -> Callable[[GpuHardware], str]:
    def hang(_: GpuHardware) -> str:
        released.wait()
        return "late"

    return hang


async def test_a_call_that_hangs_ends_with_an_error_and_delays_no_other_gpu(
    cards: GpuCards, released: threading.Event
) -> None:
    with pytest.raises(TimedOutError, match="GPU-1: a call has not returned within 1 s"):
        await cards.call_gpu("GPU-1", _hang(released))
    assert await cards.call_gpu("GPU-2", lambda _: "works") == "works"
    assert await cards.call(lambda hardware: hardware.count()) == 2


async def test_further_calls_of_a_hung_gpu_are_rejected_at_once(
    cards: GpuCards, released: threading.Event
) -> None:
    answers = await asyncio.gather(
        *(cards.call_gpu("GPU-1", _hang(released)) for _ in range(20)), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [TimedOutError] * 20
    assert sum("an earlier call has not returned yet" in str(answer) for answer in answers) == 19


async def test_a_gpu_works_again_when_its_call_has_returned(cards: GpuCards, released: threading.Event) -> None:
    with pytest.raises(TimedOutError):
        await cards.call_gpu("GPU-1", _hang(released))
    released.set()
    async with asyncio.timeout(40):
        while cards.hangs("GPU-1"):
            await asyncio.sleep(0.01)
    assert await cards.call_gpu("GPU-1", lambda _: "works") == "works"


async def test_a_cancelled_caller_leaves_its_call_running_and_the_next_one_waits_for_it(
    cards: GpuCards, released: threading.Event
) -> None:
    first = asyncio.create_task(cards.call_gpu("GPU-1", _hang(released)))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    released.set()
    assert await cards.call_gpu("GPU-1", lambda _: "next") == "next"


async def test_an_error_of_a_call_is_the_callers(cards: GpuCards) -> None:
    def fail(_: GpuHardware) -> None:
        raise ValueError("a mistake")

    with pytest.raises(ValueError, match="a mistake"):
        await cards.call_gpu("GPU-1", fail)


async def test_the_end_does_not_wait_for_a_hung_gpu(released: threading.Event) -> None:
    async with asyncio.timeout(40):
        async with GpuCards(SimulatedGpus(), seconds=_SECONDS) as cards:
            with pytest.raises(TimedOutError):
                await cards.call_gpu("GPU-1", _hang(released))
    released.set()


async def test_nothing_else_runs_while_the_cards_are_closed_for_an_action(cards: GpuCards) -> None:
    seen: list[bool] = []

    def action() -> None:
        seen.append(cards.is_open)

    await asyncio.gather(
        cards.call_closed(action),
        *(cards.call_gpu("GPU-2", lambda hardware: hardware.count()) for _ in range(5)),
    )
    assert seen == [False]
    assert cards.is_open


async def test_cards_are_not_closed_for_an_action_while_a_call_hangs(
    cards: GpuCards, released: threading.Event
) -> None:
    with pytest.raises(TimedOutError):
        await cards.call_gpu("GPU-1", _hang(released))
    with pytest.raises(TimedOutError, match="cannot be closed"):
        await cards.call_closed(lambda: None)


async def test_cards_that_are_not_kept_open_are_closed_after_their_use() -> None:
    async with asyncio.timeout(20):
        async with GpuCards(SimulatedGpus(), keeps_open=False) as cards:
            assert await cards.call(lambda hardware: hardware.count()) == 1
            assert cards.is_open
            while cards.is_open:
                await asyncio.sleep(0.01)
            assert await cards.call(lambda hardware: hardware.count()) == 1
