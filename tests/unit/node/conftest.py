"""Fixtures of the node side's tests."""

from pathlib import Path

import pytest

from tests.unit.node.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)
