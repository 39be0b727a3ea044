"""Each test of the server runs on asyncio's event loop and on uvloop: a driver's process may have either."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from tests.unit.node.kubelet.served import Served, serving


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    loops = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return loops if item.path.name.startswith("test_server") else {"asyncio": loops["asyncio"]}


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "socket") as served:
        yield served
