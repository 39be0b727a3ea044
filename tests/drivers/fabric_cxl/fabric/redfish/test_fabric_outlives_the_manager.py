"""The emulator is killed in the middle of an attach or a detach, and started again."""

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest

from dradriver_fabric_cxl.fabric import FabricPace
from dradriver_fabric_cxl.fabric.redfish import open_redfish
from tests.drivers.fabric_cxl.emulator_process import EmulatorProcess
from tests.drivers.fabric_cxl.fabric_suite import PACE, count_chunks, find_attachments, request_memory


class Killer:
    """Kills the emulator at a pause and starts it again, within one call or between two."""

    def __init__(self, emulator: EmulatorProcess) -> None:
        self.pause = 0
        self._emulator = emulator

    async def sleep(self, _: float) -> None:
        self.pause -= 1
        if self.pause == 0:
            await asyncio.to_thread(self._emulator.kill)
            await asyncio.to_thread(self._emulator.start)

    def pace(self) -> FabricPace:
        return FabricPace(sleep=self.sleep)


@pytest.mark.parametrize("pause", range(1, 4))
async def test_attach_and_detach_survive_a_killed_manager(own_emulator: EmulatorProcess, pause: int) -> None:
    killer = Killer(own_emulator)
    async with open_redfish(own_emulator.files.settings(own_emulator.url, killer.pace())) as fabric:
        request = await request_memory(fabric)
        killer.pause = pause
        attachment = await fabric.attach(request)
        assert await find_attachments(fabric, request) == [attachment]
        assert await count_chunks(fabric, request) == 1
        killer.pause = pause
        await fabric.detach(request.identity.tag)
        assert await find_attachments(fabric, request) == []
        assert await count_chunks(fabric, request) == 0


async def test_a_manager_that_is_away_for_a_while_is_waited_for(own_emulator: EmulatorProcess) -> None:
    async def start_again(_: float) -> None:
        own_emulator.kill()
        await asyncio.to_thread(own_emulator.start)

    pace = FabricPace(sleep=start_again)
    async with open_redfish(own_emulator.files.settings(own_emulator.url, pace)) as fabric:
        request = await request_memory(fabric)
        await asyncio.to_thread(own_emulator.kill)
        assert (await fabric.attach(request)).connected


async def test_changes_are_received_after_the_manager_was_away(own_emulator: EmulatorProcess) -> None:
    """The stream of events is opened anew, and what happened meanwhile is read."""
    async with (
        open_redfish(own_emulator.files.settings(own_emulator.url, PACE)) as fabric,
        aclosing(fabric.changes()) as changes,
    ):
        await anext(changes)
        await anext(changes)
        await asyncio.to_thread(own_emulator.kill)
        changed = asyncio.ensure_future(anext(changes))
        await asyncio.to_thread(own_emulator.start)
        await changed


async def test_a_silent_stream_of_events_is_opened_anew(own_emulator: EmulatorProcess) -> None:
    pace = replace(PACE, silence=0.05)
    async with (
        open_redfish(own_emulator.files.settings(own_emulator.url, pace)) as fabric,
        aclosing(fabric.changes()) as changes,
    ):
        for _ in range(4):
            await anext(changes)
