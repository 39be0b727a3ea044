"""An API server with two nodes and a class of a controller."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.classic.shelf import Shelf, ShelfLab, laboratory


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[ShelfLab]:
    async with laboratory(tmp_path) as made:
        yield made


@pytest.fixture
async def shelf() -> Shelf:
    return Shelf()
