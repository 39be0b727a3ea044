"""An API server with two nodes and a class."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.conditions.fabric import Hardware, Lab, laboratory


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    async with laboratory(tmp_path) as made:
        yield made


@pytest.fixture
async def hardware() -> Hardware:
    return Hardware()
