"""`dradriver top` prints one picture for programs, and rejects what it cannot show."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from click.testing import Result

from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import NODES, SLICES, Client
from dradriver.testing import builders

Top = Callable[..., Awaitable[Result]]


@pytest.fixture
async def top(tmp_path: Path, dradriver: Callable[..., Result]) -> AsyncIterator[Top]:
    """Runs `dradriver top` for a cluster with the nodes node-1 and node-2."""
    server = ApiServer(tmp_path / "api")
    await server.start()
    path = tmp_path / "kubeconfig"
    await asyncio.to_thread(server.write_kubeconfig, path)
    async with await Client.connect(str(path)) as client:
        for name in ("node-1", "node-2"):
            await client.create(NODES, builders.node(name), into=dict)
            source = builders.slice_(builders.device(f"{name}-a"), node_name=name)
            await client.create(SLICES, source, into=dict)
    yield lambda *arguments: asyncio.to_thread(dradriver, "top", f"--kubeconfig={path}", *arguments)
    await server.stop()


async def test_once_prints_all_rows(top: Top) -> None:
    result = await top("--once")
    assert result.exit_code == 0
    assert "  node-1    0%     1  [....]\n  node-2" in result.stdout
    assert "No pod and no claim waits for devices." in result.stdout
    assert "\x1b" not in result.stdout


async def test_once_applies_filters(top: Top) -> None:
    result = await top("--once", "--filter", "node-2", "--free", "--sort", "used")
    assert "order: used  filter: node-2  only free  1 of 2 rows" in result.stdout
    assert "node-1" not in result.stdout


async def test_once_prints_the_detail_of_a_node(top: Top) -> None:
    result = await top("node-2", "--once")
    assert "node node-2" in result.stdout
    assert "1 of 1 devices still fit: node-2-a" in result.stdout


async def test_an_unknown_name_is_an_error(top: Top) -> None:
    result = await top("node-7", "--once")
    assert result.exit_code == 2
    assert "no node and no pool of several nodes has the name 'node-7'" in result.stderr


async def test_a_pipe_is_an_error_that_names_the_option(top: Top) -> None:
    result = await top()
    assert result.exit_code == 2
    assert "top needs a terminal on stdin and stdout: use --once" in result.stderr
