"""A server listens at the given path, or reports the reason why it cannot."""

import asyncio
from pathlib import Path

import pytest

from dradriver.errors import UsageError
from dradriver.node.kubelet.server import SocketServer
from dradriver.node.kubelet.sockets import MAX_PATH
from tests.unit.node.kubelet.served import Served, eventually, serving, text

LONG = 3600


@pytest.mark.parametrize("name", ["a b", "100%", "a%20b", "a#b", "a?b", "ä", "..."])
async def test_a_path_may_have_reserved_characters_of_a_uri(tmp_path: Path, name: str) -> None:
    server = SocketServer(tmp_path / name, {})
    await server.start()
    assert [path.name for path in tmp_path.iterdir()] == [name]
    await server.stop(0)
    assert not list(tmp_path.iterdir())


async def test_the_longest_path_fits(tmp_path: Path) -> None:
    name = "x" * (MAX_PATH - len(bytes(tmp_path)) - 1)
    server = SocketServer(tmp_path / name, {})
    await server.start()
    await server.stop(0)


async def test_a_path_that_is_too_long_for_a_socket_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / ("x" * MAX_PATH)
    with pytest.raises(UsageError, match=r"x: can't listen: "):
        await SocketServer(path, {}).start()


async def test_a_running_server_is_not_replaced(served: Served) -> None:
    with pytest.raises(UsageError, match="is served by another process"):
        await SocketServer(served.path, {}).start()
    assert served.path.exists()


async def test_the_next_server_may_listen_while_the_last_one_stops(served: Served) -> None:
    """The last one removes no socket of the next one."""
    async with served.dial() as client:
        call = client.unary("Wait", text("old"))
        await eventually(lambda: served.waiting == 1)
        stopping = asyncio.create_task(served.server.stop(LONG))
        await eventually(lambda: not served.path.exists())
        async with serving(served.path) as following, following.dial() as other:
            served.gate.set()
            assert await call == text("old")
            await stopping
            assert served.path.exists()
            assert await other.unary("Say", text("new")) == text("new")
