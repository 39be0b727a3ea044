"""Rolling update: two instances with different inventories; the one registered last publishes, alone."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from dradriver.kube import Client
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.node import Plugin
from dradriver.node.devices import publish_election
from dradriver.node.devices.publish_election import PublishElection
from tests.unit.node.plugin_world import notify
from tests.unit.node.published_world import PoolDriver, config, sample, until
from tests.unit.publish.conftest import World, a_world

OLD = Pool("lamps", (Device("old"),))
NEW = Pool("lamps", (Device("new-0"), Device("new-1")))


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(publish_election, "_POLL_SECONDS", 0.02)
    async with a_world(tmp_path) as made:
        yield made


async def start(stack: AsyncExitStack, world: World, folder: Path, pool: Pool) -> Plugin:
    client = await stack.enter_async_context(await Client.connect(world.kubeconfig))
    plugin = Plugin(PoolDriver(pool), client, config(folder, pod_uid=str(uuid4())))
    await plugin.start()
    stack.push_async_callback(plugin.stop, 1)
    return plugin


async def published(world: World, pool: Pool) -> None:
    """Returns when exactly this is published."""
    names = [device.name for device in pool.devices]
    await world.until(lambda slices: [d.name for each in slices for d in each.spec.devices] == names)


def writes(*plugins: Plugin) -> float:
    kinds = ("create", "update", "delete")
    return sum(
        sample(plugin, "slice_writes_total", operation=kind) or 0 for plugin in plugins for kind in kinds
    )


def publishing(plugin: Plugin) -> bool:
    return sample(plugin, "pool_state", pool="lamps", state="published") == 1


async def reported(plugin: Plugin) -> None:
    """The plugin has got the answer to its last write, which others may see earlier."""
    while not publishing(plugin):
        await asyncio.sleep(0.01)


async def test_one_inventory_is_published_and_handed_over_both_ways(world: World, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        old = await start(stack, world, tmp_path, OLD)
        await notify(old)
        await published(world, OLD)
        await reported(old)
        new = await start(stack, world, tmp_path, NEW)
        await notify(new)
        await published(world, NEW)
        await reported(new)
        assert not publishing(old)
        old._driver.rediscover()
        await settled(new)
        await published(world, NEW)
        assert writes(old, new) == 2
        await new.stop(1)
        await published(world, OLD)
        await reported(old)
        assert writes(old, new) == 3


async def settled(plugin: Plugin) -> None:
    """The plugin has discovered and tried once more."""
    before = sample(plugin, "publish_results_total", state="published") or 0
    plugin._driver.rediscover()

    async def tried() -> bool:
        return (sample(plugin, "publish_results_total", state="published") or 0) > before

    await until(tried)


async def test_an_instance_that_is_not_registered_yet_changes_nothing(world: World, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        old = await start(stack, world, tmp_path, OLD)
        await notify(old)
        await published(world, OLD)
        await reported(old)
        new = await start(stack, world, tmp_path, NEW)
        await settled(old)
        assert (publishing(old), publishing(new)) == (True, False)
        assert writes(new) == 0


async def test_an_instance_that_the_kubelet_rejects_leaves_the_election(world: World, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        old = await start(stack, world, tmp_path, OLD)
        await notify(old)
        await published(world, OLD)
        new = await start(stack, world, tmp_path, NEW)
        await notify(new)
        await published(world, NEW)
        await notify(new, "its versions are not supported")
        await published(world, OLD)


async def test_a_restarted_kubelet_decides_again(world: World, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        old = await start(stack, world, tmp_path, OLD)
        new = await start(stack, world, tmp_path, NEW)
        await notify(old)
        await published(world, OLD)
        await notify(new)
        await published(world, NEW)
        await notify(old)
        await published(world, OLD)


async def test_kill_minus_nine_of_the_publishing_instance_elects_the_other(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys; from pathlib import Path; "
        "from dradriver.node.devices.publish_election import PublishElection\n"
        "async def publish():\n"
        "    print('publishing', flush=True); await asyncio.Event().wait()\n"
        "async def main():\n"
        "    turns = PublishElection(Path(sys.argv[1])); turns.join(); await turns.run(publish)\n"
        "asyncio.run(main())"
    )
    mine, running = PublishElection(tmp_path / "lock"), asyncio.Event()
    stopped = asyncio.Event()

    async def publish() -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            running.clear()
            stopped.set()

    mine.join()
    task = asyncio.create_task(mine.run(publish))
    await running.wait()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(tmp_path / "lock"), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    assert stopped.is_set()
    assert not running.is_set()
    process.kill()
    await process.wait()
    await running.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    mine.close()
