"""A stop ends and leaves no work of the SDK behind, with any behavior of the driver."""

import asyncio
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from dradriver.aio import tasks
from dradriver.driver import Claim
from dradriver.errors import UsageError
from dradriver.node.crash_points import CrashPoint
from dradriver.node.driver_context import ContextRequests, ProcessContext
from dradriver.node.state.locks import ClaimLocks
from tests.unit.node.plugin_world import Node, prepare
from tests.unit.node.world import NODE, Answers, LampDriver, World, allocated


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_CANCEL_SECONDS", 0.05)


class Stubborn(LampDriver):
    """Its prepare ignores its cancellation until `may_end` is set."""

    def __init__(self) -> None:
        super().__init__({})
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def prepare(self, claim: Claim) -> Answers:
        self.begun.set()
        while not self.may_end.is_set():
            with suppress(asyncio.CancelledError):
                await self.may_end.wait()
        return await super().prepare(claim)


async def test_a_prepare_that_ignores_its_cancellation_is_abandoned(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    driver = Stubborn()
    plugin = node.plugin(driver)
    await plugin.start()
    calling = asyncio.create_task(prepare(plugin, node.api.add(allocated("claim", "lamp-0"))))
    await driver.begun.wait()
    await asyncio.wait_for(plugin.stop(0.05), 20)
    assert "prepare default/claim" in caplog.text
    assert "is abandoned" in caplog.text
    driver.may_end.set()
    await asyncio.gather(calling, return_exceptions=True)


async def test_a_shutdown_that_never_ends_is_abandoned(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    class Endless(LampDriver):
        async def shutdown(self) -> None:
            await asyncio.Event().wait()

    plugin = node.plugin(Endless({}))
    await plugin.start()
    await asyncio.wait_for(plugin.stop(0.05), 20)
    assert "shutdown() has not ended" in caplog.text


async def test_a_driver_says_how_long_its_shutdown_may_take(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    class Endless(LampDriver):
        shutdown_seconds = 0.01

        async def shutdown(self) -> None:
            await asyncio.Event().wait()

    plugin = node.plugin(Endless({}))
    await plugin.start()
    await asyncio.wait_for(plugin.stop(0.0), 20)
    assert "shutdown() has not ended within 0 s" in caplog.text


async def test_a_plain_shutdown_that_never_ends_is_abandoned(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    may_end = threading.Event()

    class Endless(LampDriver):
        def shutdown(self) -> None:
            may_end.wait()

    plugin = node.plugin(Endless({}))
    await plugin.start()
    await asyncio.wait_for(plugin.stop(0.05), 20)
    may_end.set()
    assert "shutdown() has not ended" in caplog.text


async def test_requests_after_the_stop_do_nothing(node: Node) -> None:
    driver = LampDriver({})
    async with node.running(driver) as plugin:
        pass
    driver.rediscover()
    driver.restart("no reason")
    assert not plugin.parts.discovery._requested.is_set()
    assert plugin.parts.restarts.empty()


def test_requests_after_the_loop_is_closed_do_nothing(tmp_path: Path) -> None:
    driver, loop, seen = LampDriver({}), asyncio.new_event_loop(), list[str]()

    def ask(reason: str = "") -> None:
        loop.call_soon_threadsafe(seen.append, reason)

    driver.set_context(ProcessContext(ContextRequests(rediscover=ask, restart=ask), NODE, tmp_path))
    loop.close()
    driver.rediscover()
    driver.restart("no reason")
    assert seen == []


async def test_a_collection_during_a_stop_ends_before_the_state_is_closed(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    gone = allocated("gone", "lamp-0")
    node.api.add(gone)
    driver = LampDriver(node.hardware)
    async with node.running(driver) as plugin:
        await prepare(plugin, gone)
    node.api.delete(gone)
    begun = asyncio.Event()

    class Slow(LampDriver):
        async def unprepare(self, claim: Claim) -> None:
            begun.set()
            await asyncio.Event().wait()

    plugin = node.plugin(Slow(node.hardware))
    await plugin.start()
    await begun.wait()
    await plugin.stop(0.05)
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not [name for name in names if name.startswith("unprepare")]


async def test_a_registry_that_is_a_file_is_an_error_that_names_it(node: Node) -> None:
    plugin = node.plugin()
    plugin.config.registry_dir.write_text("no folder")
    with pytest.raises(UsageError, match="plugins_registry"):
        await plugin.start()
    with suppress(Exception):
        await plugin.stop(0)


async def test_the_lock_is_kept_while_files_are_being_written(tmp_path: Path) -> None:
    world, writing, may_go_on = World(tmp_path), threading.Event(), threading.Event()

    def observe(step: CrashPoint, _uid: str) -> None:
        if step is CrashPoint.PREPARE_METADATA_WRITTEN:
            writing.set()
            may_go_on.wait()

    claim = allocated("claim", "lamp-0")
    async with world.running(observe=observe) as process:
        preparing = asyncio.create_task(process.prepare(claim))
        await asyncio.to_thread(writing.wait)
        await process.claims.drain(0)
        other = ClaimLocks(tmp_path / "claims.lock")
        async with other.hold_if_free(claim.metadata.uid) as free:
            assert not free
        may_go_on.set()
        await asyncio.gather(preparing, return_exceptions=True)
        other.close()
