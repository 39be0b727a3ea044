"""Fixtures for driver authors, loaded by pytest through the entry point `pytest11`.

Everything heavy is imported by the fixture that needs it: pytest loads this file in every project of every
environment that has dradriver installed.
"""

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dradriver.cluster import EmbeddedCluster
    from dradriver.driver import Driver
    from dradriver.testing.harness import Harness

# The contract's bare asserts should explain themselves in an author's test run too.
pytest.register_assert_rewrite("dradriver.testing.contract")


@pytest.fixture
def driver_harness(tmp_path: Path) -> "Iterator[Callable[[Callable[[], Driver]], Harness]]":
    """Makes a `Harness` for a driver (a class, or a function that makes one), and ends it after the test."""
    from dradriver.testing import Harness  # noqa: PLC0415

    with ExitStack() as stack:
        made = 0

        def make(driver: "Callable[[], Driver]") -> Harness:
            nonlocal made
            made += 1
            return stack.enter_context(Harness(driver, tmp_path / f"node-{made}"))

        yield make


async def _cluster() -> "AsyncIterator[EmbeddedCluster]":
    """An embedded cluster of one node, empty; its containers are plain processes."""
    from dradriver.extras import require  # noqa: PLC0415

    require("cluster", "the fixture `cluster`")
    from dradriver.cluster import EmbeddedCluster  # noqa: PLC0415

    # Not `tmp_path`: its names are too long for the sockets below.
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        async with EmbeddedCluster(Path(folder), runtime="process") as running:
            yield running


if find_spec("pytest_asyncio"):
    import pytest_asyncio

    cluster = pytest_asyncio.fixture(_cluster, name="cluster")
else:

    @pytest.fixture(name="cluster")
    def cluster_is_async() -> None:
        """Says what an async fixture needs."""
        pytest.fail("the fixture `cluster` is asynchronous: install pytest-asyncio")
