"""Hardware blocks; the event loop does not."""

import asyncio
import threading

import pytest

from dradriver_gpu_mig.card import DriverNotLoadedError, Event, EventKind, GpuCards
from dradriver_gpu_mig.card.simulator import SimulatedGpus


async def test_every_call_is_made_by_one_thread() -> None:
    """All calls of NVML come from one thread."""
    async with GpuCards(SimulatedGpus()) as cards:
        names = await asyncio.gather(*(cards.call(lambda _: threading.current_thread().name) for _ in range(8)))
    assert len(set(names)) == 1
    assert names[0] != threading.current_thread().name


async def test_events_arrive_while_calls_are_made() -> None:
    """A wait for events does not block calls of the hardware."""
    hardware = SimulatedGpus()
    async with GpuCards(hardware) as cards:
        (gpu,) = await cards.call(lambda card: card.gpus())
        events = cards.events()
        first = asyncio.ensure_future(anext(events))
        await cards.call(lambda _: hardware.report_error(gpu.uuid, EventKind.XID, xid=79))
        event = await first
        await events.aclose()
    assert (event.gpu, event.kind, event.xid) == (gpu.uuid, EventKind.XID, 79)


async def test_an_error_in_the_thread_of_events_is_raised_to_the_listener() -> None:
    class Mistaken(SimulatedGpus):
        def wait_event(self, timeout: float) -> Event | None:
            raise RuntimeError(f"no event in {timeout} s")

    async with GpuCards(Mistaken()) as cards:
        with pytest.raises(RuntimeError, match="no event"):
            await anext(cards.events())


async def test_leaving_ends_both_threads() -> None:
    before = set(threading.enumerate())  # some of them may be about to end
    async with GpuCards(SimulatedGpus()) as cards:
        waiting = asyncio.ensure_future(anext(cards.events()))
        await cards.call(lambda card: card.gpus())
        waiting.cancel()
    assert set(threading.enumerate()) <= before


async def test_a_refusal_to_open_is_the_callers() -> None:
    def refuse(call: str, _moment: str) -> None:
        if call == "open":
            raise DriverNotLoadedError("no module")

    with pytest.raises(DriverNotLoadedError, match="no module"):
        async with GpuCards(SimulatedGpus(hook=refuse)):
            raise AssertionError
