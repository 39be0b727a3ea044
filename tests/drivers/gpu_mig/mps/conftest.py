from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drivers.gpu_mig.mps.benches import MpsBench, NodeBench, SimulatedBench


@pytest.fixture(params=[SimulatedBench, NodeBench], ids=["simulated", "processes"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MpsBench]:
    """A node, once with simulated daemons, and once with processes."""
    opened = request.param(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeBench]:
    """A node whose daemons are processes."""
    opened = NodeBench(tmp_path)
    yield opened
    opened.close()
