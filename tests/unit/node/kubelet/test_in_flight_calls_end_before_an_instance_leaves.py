"""A stopping instance removes its registration only when no call of the kubelet can need it."""

import asyncio
from pathlib import Path

import pytest

from dradriver.driver import Claim
from dradriver.node import plugin as plugin_module
from dradriver.node.kubelet.in_flight import CallsInFlight
from tests.unit.node.plugin_world import Node, notify, prepare
from tests.unit.node.world import Answers, LampDriver, allocated

FOREVER = 1e9


class Slow(LampDriver):
    """Its prepare ends on request."""

    def __init__(self) -> None:
        super().__init__({})
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def prepare(self, claim: Claim) -> Answers:
        self.begun.set()
        await self.may_end.wait()
        return await super().prepare(claim)


async def test_the_registration_socket_exists_while_a_call_is_in_flight(tmp_path: Path) -> None:
    """The kubelet drops the connection and its calls when that socket is removed."""
    node, driver = Node(tmp_path), Slow()
    plugin = node.plugin(driver)
    await plugin.start()
    calling = asyncio.create_task(prepare(plugin, node.api.add(allocated("claim", "lamp-0"))))
    await driver.begun.wait()
    stopping = asyncio.create_task(plugin.stop(20))
    done, _ = await asyncio.wait({stopping}, timeout=0.05)
    assert not done
    assert plugin.sockets.registrar.exists()
    driver.may_end.set()
    answers = await calling
    await stopping
    assert [answer.error for answer in answers.values()] == [""]
    assert not plugin.sockets.registrar.exists()
    assert not plugin.sockets.service.exists()


async def test_an_instance_serves_until_the_kubelet_calls_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_module, "_QUIET_SECONDS", FOREVER)
    node = Node(tmp_path)
    async with node.running(pod_uid="old") as old, node.running(pod_uid="new") as new:
        await notify(old)
        await notify(new)
        while not old.parts.election.has_successor:
            await asyncio.sleep(0)
        stopping = asyncio.create_task(old.stop(600))
        answers = await prepare(old, node.api.add(allocated("claim", "lamp-0")))
        assert [answer.error for answer in answers.values()] == [""]
        assert not stopping.done()
        stopping.cancel()  # it would wait for ten minutes
        await asyncio.wait({stopping})
        old._stopped = False  # otherwise another stop does nothing
        await old.stop(0.05)


async def test_no_call_for_the_given_time_is_quiet() -> None:
    assert await CallsInFlight().wait_quiet(0, asyncio.get_running_loop().time() + 20)


async def test_the_wait_for_a_call_that_does_not_end_has_a_deadline() -> None:
    calls_in_flight = CallsInFlight()
    with calls_in_flight.call():
        assert not await calls_in_flight.wait_quiet(0, asyncio.get_running_loop().time() + 0.02)


async def test_a_new_call_restarts_the_time() -> None:
    calls_in_flight = CallsInFlight()
    waiting = asyncio.create_task(calls_in_flight.wait_quiet(0.05, asyncio.get_running_loop().time() + 20))
    await asyncio.sleep(0)
    with calls_in_flight.call():
        await asyncio.sleep(0.1)
        assert not waiting.done()
    assert await waiting


async def test_the_wait_for_endless_calls_has_a_deadline() -> None:
    calls_in_flight = CallsInFlight()

    async def calling() -> None:
        while True:
            with calls_in_flight.call():
                await asyncio.sleep(0)
            await asyncio.sleep(0)

    kubelet = asyncio.create_task(calling())
    assert not await calls_in_flight.wait_quiet(20, asyncio.get_running_loop().time() + 0.05)
    kubelet.cancel()
    await asyncio.gather(kubelet, return_exceptions=True)
