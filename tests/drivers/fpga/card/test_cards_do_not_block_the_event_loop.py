"""Hardware blocks; the event loop does not."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from dradriver_fpga.card import (
    BusyError,
    FpgaCard,
    FpgaCards,
    FpgaError,
    FpgaNotSupportedError,
    ManagerFailedError,
    ManagerState,
)
from dradriver_fpga.card.simulator import FpgaMemoryStore, SimulatedFpgas
from tests.drivers.fpga.bitstream_files import AFU, Bitstreams
from tests.drivers.fpga.card_suite import LONG, OTHER_AFU

REGION = "0000:3b:00.0/0"
FAST = 1000.0
NEVER = 1e6
"""Seconds between two periodic reads."""


@pytest.fixture
def files(tmp_path: Path) -> Bitstreams:
    return Bitstreams(tmp_path)


@pytest.fixture
def hardware() -> SimulatedFpgas:
    return SimulatedFpgas(["pac"], store=FpgaMemoryStore(), speed=FAST)


@pytest.fixture
async def cards(hardware: SimulatedFpgas) -> AsyncIterator[FpgaCards]:
    async with FpgaCards(hardware, rescan=NEVER) as cards:
        yield cards


async def next_of(changes: AsyncGenerator[tuple[FpgaCard, ...], None]) -> tuple[FpgaCard, ...]:
    return await asyncio.wait_for(anext(changes), LONG)


async def test_the_first_result_is_the_present_cards(cards: FpgaCards) -> None:
    changes = cards.changes()
    assert await next_of(changes) == await cards.read()
    await changes.aclose()


async def test_adding_and_removing_a_card_is_reported(cards: FpgaCards, hardware: SimulatedFpgas) -> None:
    changes = cards.changes()
    before = await next_of(changes)
    new = hardware.plug("alveo")
    assert [card.id for card in await next_of(changes)] == [before[0].id, new]
    hardware.unplug(new)
    assert await next_of(changes) == before
    await changes.aclose()


async def test_programming_yields_the_cards_again(cards: FpgaCards, files: Bitstreams) -> None:
    """Programming sends no uevent, so nothing else causes a read."""
    changes = cards.changes()
    await next_of(changes)
    await cards.program(REGION, files.fitting("pac"), timeout=LONG)
    (card,) = await next_of(changes)
    assert card.regions[0].afu_id == AFU
    await changes.aclose()


async def test_a_programming_failure_is_raised(
    cards: FpgaCards, hardware: SimulatedFpgas, files: Bitstreams
) -> None:
    changes = cards.changes()
    await next_of(changes)
    hardware.fail_next(REGION, ManagerState.WRITE_ERROR)
    with pytest.raises(ManagerFailedError):
        await cards.program(REGION, files.fitting("pac"), timeout=LONG)
    (card,) = await next_of(changes)
    assert card.regions[0].state is ManagerState.WRITE_ERROR
    await changes.aclose()


async def test_a_call_for_the_same_bitstream_waits_for_the_first(
    cards: FpgaCards, hardware: SimulatedFpgas, files: Bitstreams
) -> None:
    began: list[str] = []
    hardware.hook = lambda call, moment: began.append(call) if (call, moment) == ("program", "before") else None
    await asyncio.gather(*(cards.program(REGION, files.fitting("pac"), timeout=LONG) for _ in range(5)))
    assert began == ["program"]


async def test_another_bitstream_for_a_busy_card_is_rejected(
    cards: FpgaCards, hardware: SimulatedFpgas, files: Bitstreams
) -> None:
    hardware.hang_next(REGION)
    first = asyncio.create_task(cards.program(REGION, files.fitting("pac"), timeout=LONG))
    while not (await cards.read())[0].managers[0].state.is_busy:
        pass
    with pytest.raises(BusyError):
        await cards.program(REGION, files.fitting("pac", OTHER_AFU), timeout=LONG)
    hardware.release(REGION)
    with pytest.raises(FpgaError):
        await first


async def test_programming_goes_on_without_its_caller(
    cards: FpgaCards, hardware: SimulatedFpgas, files: Bitstreams
) -> None:
    under_way, ended = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hook(call: str, moment: str) -> None:
        if (call, moment) == ("program", "after"):
            loop.call_soon_threadsafe(under_way.set)
        if (call, moment) == ("programmed", "after"):
            ended.set()

    hardware.hook = hook
    caller = asyncio.create_task(cards.program(REGION, files.fitting("pac"), timeout=LONG))
    await under_way.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert await asyncio.to_thread(ended.wait, LONG)
    assert (await cards.read())[0].regions[0].bitstream == files.fitting("pac").sha256


async def test_leaving_does_not_wait_for_hardware(hardware: SimulatedFpgas, files: Bitstreams) -> None:
    hardware.hang_next(REGION)
    async with FpgaCards(hardware) as cards:
        programming = asyncio.create_task(cards.program(REGION, files.fitting("pac"), timeout=LONG))
        while not (await cards.read())[0].managers[0].state.is_busy:
            pass
    hardware.release(REGION)
    with pytest.raises(asyncio.CancelledError):
        await programming


async def test_without_uevents_cards_are_read_periodically(caplog: pytest.LogCaptureFixture) -> None:
    class Quiet(SimulatedFpgas):
        def wait_change(self, timeout: float) -> bool:
            raise FpgaNotSupportedError("there are no uevents: no libudev")

    hardware = Quiet(["pac"])
    async with FpgaCards(hardware, rescan=0.05) as cards:
        changes = cards.changes()
        await next_of(changes)
        hardware.plug("zynq")
        assert len(await next_of(changes)) == 2
        await changes.aclose()
    assert "no libudev" in caplog.text


async def test_cards_that_cannot_be_read_are_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dradriver_fpga.card.cards._RETRY_SECONDS", 0.01)
    answers = iter([FpgaError("not now")])

    def hook(call: str, moment: str) -> None:
        if (call, moment) == ("cards", "before") and (error := next(answers, None)):
            raise error

    async with FpgaCards(SimulatedFpgas(["pac"], hook=hook), rescan=NEVER) as cards:
        changes = cards.changes()
        assert len(await next_of(changes)) == 1
        await changes.aclose()


async def test_closing_ends_a_pending_iteration_of_changes() -> None:
    async with FpgaCards(SimulatedFpgas(["pac"]), rescan=NEVER) as cards:
        changes = cards.changes()
        await next_of(changes)
        waiting = asyncio.create_task(next_of(changes))
        await cards.read()
    with pytest.raises(StopAsyncIteration):
        await waiting


async def test_an_unexpected_error_is_raised_to_the_listener() -> None:
    """Rather than cards that are followed no more."""

    class Broken(SimulatedFpgas):
        def wait_change(self, timeout: float) -> bool:
            raise RuntimeError("a mistake of ours")

    async with FpgaCards(Broken(["pac"]), rescan=NEVER) as cards:
        changes = cards.changes()
        await next_of(changes)
        with pytest.raises(RuntimeError, match="a mistake of ours"):
            await next_of(changes)


async def test_the_end_of_changes_ends_their_thread(cards: FpgaCards) -> None:
    changes = cards.changes()
    await next_of(changes)
    await changes.aclose()
    assert "fpga-changes" not in {thread.name for thread in threading.enumerate()}
