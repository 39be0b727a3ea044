"""Each instance keeps a file with its readiness until it ends."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from dradriver.node.reporting.instance_file import InstanceReport, read_instances
from tests.unit.node.plugin_world import Node, notify
from tests.unit.node.world import DRIVER


async def reported(data_dir: Path, condition: Callable[[InstanceReport], bool]) -> InstanceReport:
    async with asyncio.timeout(20):
        while True:
            found = read_instances(data_dir)
            if found and condition(found[0]):
                return found[0]
            await asyncio.sleep(0.05)


async def test_the_file_has_the_reason_and_is_removed_with_the_instance(tmp_path: Path) -> None:
    node, data_dir = Node(tmp_path), tmp_path / "plugins" / DRIVER
    async with node.running() as plugin:
        first = await reported(data_dir, lambda report: "no kubelet has opened a socket in" in report.missing)
        assert first.runs
        assert first.service == str(plugin.sockets.service)
        await notify(plugin, "the version is odd")
        await reported(data_dir, lambda report: report.missing.endswith("the version is odd"))
    assert read_instances(data_dir) == []


async def test_the_file_of_a_killed_instance_is_removed_at_the_next_start(tmp_path: Path) -> None:
    node, data_dir = Node(tmp_path), tmp_path / "plugins" / DRIVER
    data_dir.mkdir(parents=True)
    (data_dir / "dra-killed.instance.json").write_text('{"service":"/nowhere","missing":"","since":1.0}')
    (data_dir / "dra-damaged.instance.json").write_text("{")
    async with node.running():
        assert not list(data_dir.glob("dra-*.instance.json"))
