"""An API server with two nodes and a class."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.control.caches import Caches
from dradriver.kube import CLASSES, NODES, TEMPLATES, Client
from dradriver.testing import builders
from tests.unit.conditions.fabric import Hardware, Lab
from tests.unit.control.world import template


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    server = ApiServer(tmp_path / "api")
    await server.start()
    kubeconfig = tmp_path / "kubeconfig"
    await asyncio.to_thread(server.write_kubeconfig, kubeconfig)
    async with await Client.connect(str(kubeconfig)) as client, Caches(client) as seen:
        for name in ("node-1", "node-2"):
            await client.create(NODES, builders.node(name), into=dict)
        await client.create(CLASSES, builders.device_class(), into=dict)
        await client.create(TEMPLATES, template(), "default", into=dict)
        yield Lab(str(kubeconfig), client, seen)
    await server.stop()


@pytest.fixture
async def hardware() -> Hardware:
    return Hardware()
