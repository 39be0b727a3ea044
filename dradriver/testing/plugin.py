"""Fixtures for driver authors, which pytest loads through the entry point `pytest11`.

Each fixture imports the modules that it needs, because these imports are slow, and pytest loads this file in
every environment in which dradriver is installed.
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

# With this, failed asserts of the contract show their values in an author's test run.
pytest.register_assert_rewrite("dradriver.testing.contract")


@pytest.fixture
def driver_harness(tmp_path: Path) -> "Iterator[Callable[[Callable[[], Driver]], Harness]]":
    """Return a function that creates a `Harness` for a driver (a class or a factory)."""
    from dradriver.testing import Harness  # noqa: PLC0415

    with ExitStack() as stack:
        count = 0

        def make(driver: "Callable[[], Driver]") -> Harness:
            nonlocal count
            count += 1
            return stack.enter_context(Harness(driver, tmp_path / f"node-{count}"))

        yield make


async def _cluster() -> "AsyncIterator[EmbeddedCluster]":
    """Yield an empty embedded cluster with one node, whose containers are plain processes."""
    from dradriver.extras import require  # noqa: PLC0415

    require("cluster", "the fixture `cluster`")
    from dradriver.cluster import EmbeddedCluster  # noqa: PLC0415

    # `tmp_path` is too long for the paths of sockets in it.
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        async with EmbeddedCluster(Path(folder), runtime="process") as running:
            yield running


if find_spec("pytest_asyncio"):
    import pytest_asyncio

    cluster = pytest_asyncio.fixture(_cluster, name="cluster")
else:

    @pytest.fixture(name="cluster")
    def cluster_is_async() -> None:
        """Fail with a message that names the missing package."""
        pytest.fail("the fixture `cluster` is asynchronous: install pytest-asyncio")
