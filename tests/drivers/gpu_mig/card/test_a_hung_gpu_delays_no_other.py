"""Each call has a time limit, and each GPU a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from dradriver_gpu_mig.card import GpuCards, GpuHardware, TimedOutError
from dradriver_gpu_mig.card.simulator import SimulatedGpus
from tests.drivers.gpu_mig.card.hanging_calls import let_limits_pass

_SECONDS = 0.1


class Hang:
    """A call that does not return until `release`."""

    def __init__(self) -> None:
        self._released = threading.Event()
        self._threads: set[str] = set()

    def __call__(self, _: GpuHardware) -> str:
        self._threads.add(threading.current_thread().name)
        self._released.wait()
        return "late"

    def is_hanging(self, thread: str) -> bool:
        """Return whether it hangs in the thread with this name."""
        return thread in self._threads and not self._released.is_set()

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def hang(monkeypatch: pytest.MonkeyPatch) -> Hang:
    hang = Hang()
    let_limits_pass(monkeypatch, hang.is_hanging)
    return hang


@pytest.fixture
async def cards(hang: Hang) -> AsyncIterator[GpuCards]:
    async with GpuCards(SimulatedGpus(["a100-40", "a100-40"]), seconds=_SECONDS) as cards:
        yield cards
        hang.release()


async def test_a_call_that_hangs_ends_with_an_error_and_delays_no_other_gpu(
    cards: GpuCards, hang: Hang
) -> None:
    with pytest.raises(TimedOutError, match=r"GPU-1: a call has not returned within 0\.1 s"):
        await cards.call_gpu("GPU-1", hang)
    assert await cards.call_gpu("GPU-2", lambda _: "works") == "works"
    assert await cards.call(lambda hardware: hardware.count()) == 2


async def test_further_calls_of_a_hung_gpu_are_rejected_at_once(cards: GpuCards, hang: Hang) -> None:
    answers = await asyncio.gather(*(cards.call_gpu("GPU-1", hang) for _ in range(20)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [TimedOutError] * 20
    assert sum("an earlier call has not returned yet" in str(answer) for answer in answers) == 19


async def test_a_gpu_works_again_when_its_call_has_returned(cards: GpuCards, hang: Hang) -> None:
    with pytest.raises(TimedOutError):
        await cards.call_gpu("GPU-1", hang)
    hang.release()
    async with asyncio.timeout(40):
        while cards.hangs("GPU-1"):
            await asyncio.sleep(0.01)
    assert await cards.call_gpu("GPU-1", lambda _: "works") == "works"


async def test_a_cancelled_caller_leaves_its_call_running_and_the_next_one_waits_for_it(
    cards: GpuCards, hang: Hang
) -> None:
    first = asyncio.create_task(cards.call_gpu("GPU-1", hang))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    hang.release()
    assert await cards.call_gpu("GPU-1", lambda _: "next") == "next"


async def test_an_error_of_a_call_is_the_callers(cards: GpuCards) -> None:
    def fail(_: GpuHardware) -> None:
        raise ValueError("a mistake")

    with pytest.raises(ValueError, match="a mistake"):
        await cards.call_gpu("GPU-1", fail)


async def test_the_end_does_not_wait_for_a_hung_gpu(hang: Hang) -> None:
    async with asyncio.timeout(40):
        async with GpuCards(SimulatedGpus(), seconds=_SECONDS) as cards:
            with pytest.raises(TimedOutError):
                await cards.call_gpu("GPU-1", hang)
    hang.release()


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


async def test_cards_are_not_closed_for_an_action_while_a_call_hangs(cards: GpuCards, hang: Hang) -> None:
    with pytest.raises(TimedOutError):
        await cards.call_gpu("GPU-1", hang)
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
