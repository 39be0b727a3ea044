"""A driver has a folder of its own, and can request a restart."""

import asyncio
import threading
from pathlib import Path

import pytest

from dradriver.errors import DriverError
from tests.unit.node.plugin_world import Node
from tests.unit.node.world import LampDriver


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_files_of_the_drivers_own_outlive_its_process(node: Node) -> None:
    first, second = LampDriver(node.hardware), LampDriver(node.hardware)
    async with node.running(first):
        (first.data_dir / "note").write_text("of the first")
    async with node.running(second):
        assert (second.data_dir / "note").read_text() == "of the first"
    assert second.data_dir.is_relative_to(node.root / "plugins" / second.name)


async def test_a_driver_that_requests_a_restart_ends_the_process_as_failed(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    driver = LampDriver(node.hardware)
    running = asyncio.create_task(node.plugin(driver).run(asyncio.Event(), grace=5))
    while driver._context is None:
        await asyncio.sleep(0)
    await asyncio.to_thread(driver.restart, "the library was replaced")
    with pytest.raises(DriverError, match="requested a restart: the library was replaced"):
        await running
    assert not any(record.exc_info for record in caplog.records)


async def test_a_restart_request_before_the_start_is_ignored() -> None:
    thread = threading.Thread(target=LampDriver({}).restart, args=("no reason",))
    thread.start()
    thread.join()
