"""A driver whose devices are only those of a controller: `discover()` returns an empty list."""

from pathlib import Path
from typing import cast

from dradriver.publish import PoolState, PoolStatus
from tests.unit.node.controlled import HandleDriver, controlled
from tests.unit.node.plugin_world import FakePublisher, Node, notify, prepare, unprepare
from tests.unit.node.world import NODE


async def test_it_offers_no_device_becomes_ready_and_prepares_claims(tmp_path: Path) -> None:
    node = Node(tmp_path)
    driver = HandleDriver(node.hardware)
    async with node.running(driver) as plugin:
        await notify(plugin)
        await plugin.parts.claims.state_complete.wait()
        await plugin.parts.inventory.wait_known(30)
        publisher = cast(FakePublisher, plugin.parts.publisher)
        await publisher.is_wanted.wait()
        assert [(pool.name, pool.devices) for pool in publisher.wanted] == [(NODE, ())]
        plugin.parts.readiness.record(PoolStatus(NODE, PoolState.PUBLISHED))
        assert not plugin.readiness
        claim = node.api.add(controlled("claim", "lamp-0", handle=b"x"))
        answers = await prepare(plugin, claim)
        assert [device.device_name for device in answers[claim.metadata.uid].devices] == ["lamp-0"]
        await unprepare(plugin, claim)
    assert driver.prepared == driver.unprepared == [b"x"]
