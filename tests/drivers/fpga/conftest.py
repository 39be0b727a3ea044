"""An API server with two nodes and a class, one node with a card."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dradriver.kube import CLASSES
from tests.drivers.fpga.nodes import CLASS, Node
from tests.unit.conditions.fabric import Lab, laboratory


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    async with laboratory(tmp_path) as made:
        await made.client.create(CLASSES, CLASS, into=dict)
        yield made


@pytest.fixture
async def grouping(tmp_path: Path) -> AsyncIterator[Lab]:
    """A cluster that knows compatibility groups."""
    async with laboratory(tmp_path, DRADeviceCompatibilityGroups=True) as made:
        await made.client.create(CLASSES, CLASS, into=dict)
        yield made


@pytest.fixture
async def impatient(tmp_path: Path) -> AsyncIterator[Lab]:
    """A cluster that knows no binding conditions."""
    async with laboratory(tmp_path, DRADeviceBindingConditions=False) as made:
        await made.client.create(CLASSES, CLASS, into=dict)
        yield made


@pytest.fixture
def node(tmp_path: Path) -> Node:
    folder = tmp_path / "node"
    folder.mkdir()
    return Node(folder)
