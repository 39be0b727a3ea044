"""`dradriver withdraw` against an embedded API server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from click.testing import Result

from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import SLICES, Client
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.publish import PublishController
from dradriver.testing.builders import device

Command = Callable[..., Result]

TPUS = "examples.tpu.pools:TpuPools"


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    server = ApiServer(tmp_path / "server")
    await server.start()
    path = tmp_path / "kubeconfig"
    server.write_kubeconfig(path)
    yield path
    await server.stop()


async def test_slices_of_a_pool_driver_are_deleted_and_a_repetition_succeeds(
    kubeconfig: Path, dradriver: Command
) -> None:
    async with await Client.connect(str(kubeconfig)) as client:
        for driver in ("tpu.example.com", "other.example.com"):
            publisher = PublishController(client, driver)
            publisher.want([Pool("pool", (device(),), all_nodes=True)])
            running = asyncio.create_task(publisher.run())
            await publisher.wait_settled(40)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        for _ in range(2):
            result = await asyncio.to_thread(dradriver, "withdraw", TPUS, "--kubeconfig", str(kubeconfig))
            assert (result.exit_code, result.stderr) == (0, "")
        left = (await client.list(SLICES, into=ResourceSlice)).items
    assert [item.spec.driver for item in left] == ["other.example.com"]


def test_the_driver_of_a_node_is_rejected(dradriver: Command) -> None:
    result = dradriver("withdraw", "loop")
    assert result.exit_code == 2
    assert (
        result.stderr
        == "Error: NAME: loop is not a pool driver: slices of a node's driver are deleted with the Node\n"
    )
