"""What every test shares: none leaves a task behind, and each tier is marked by its folder."""

import asyncio
import contextlib
import inspect
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import control_plane, host, programs
from tests.e2e.bed import Bed
from tests.e2e.cluster import Cluster, start_cluster
from tests.e2e.leftovers import Machine

TIERS = ("interop", "e2e", "guest")
"""Markers of tests that run only when they are asked for; the tests of a folder of that name have it."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests of each tier's folder, and leaves them out unless they are asked for."""
    here, expression = Path(__file__).parent, config.option.markexpr or ""
    deselected = []
    for item in items:
        for tier in TIERS:
            if here / tier in item.path.parents:
                item.add_marker(tier)
            if tier not in expression and item.get_closest_marker(tier):
                deselected.append(item)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in deselected]


def end_at_a_timeout(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A test's timeout that falls into a callback: asyncio would log it, and the test would wait for ever."""
    if isinstance(context.get("exception"), pytest.fail.Exception):
        for task in asyncio.all_tasks(loop):
            task.cancel("the test's time is over")
    loop.default_exception_handler(context)


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a short name: paths of Unix sockets have 107 bytes, and pytest-xdist needs some of them."""
    return tmp_path_factory.mktemp("t")


@pytest.fixture
def usual_recursion_limit() -> Iterator[None]:
    """What is nested too deeply depends on Python's limit, which other tests' tools may have raised."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.fixture
async def tasks_left() -> AsyncIterator[None]:
    """Fails when a task that was started after this fixture is still running at the end."""
    before = asyncio.all_tasks()
    asyncio.get_running_loop().set_exception_handler(end_at_a_timeout)
    yield
    left: set[asyncio.Task[object]] = set()
    # A cancelled task may need one more turn of the loop to be gone.
    for _ in range(5):
        left = {t for t in asyncio.all_tasks() - before if not t.done() and t is not asyncio.current_task()}
        if not left:
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"left behind: {sorted(task.get_name() for task in left)}: {left}")


@pytest.fixture(autouse=True)
def no_task_is_left_behind(request: pytest.FixtureRequest) -> None:
    """Every task that an async test starts is awaited by whoever owns it."""
    if inspect.iscoroutinefunction(getattr(request.node, "obj", None)):
        request.getfixturevalue("tasks_left")


@pytest.fixture(scope="session")
def machine_as_found(pytestconfig: pytest.Config) -> Iterator[None]:
    """Fails the run when a bed has left something: processes, mounts, links, packet filters, sysctls, ..."""
    machine = Machine()
    yield
    if left := machine.differences():
        pytest.fail("the machine is not as it was found:\n" + "\n".join(left), pytrace=False)
    capture = pytestconfig.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        print(f"\nThe machine is as it was found: {', '.join(machine.compared)}.")


@pytest.fixture(scope="session")
def real_control_plane(machine_as_found: None) -> Iterator[Bed]:
    """A real etcd and kube-apiserver, shared by all tests that are marked `e2e`."""
    if reason := programs.missing(*programs.CONTROL_PLANE):
        pytest.skip(reason)
    with Bed() as bed:
        control_plane.start(bed)
        yield bed


@pytest.fixture(scope="session")
def real_cluster(machine_as_found: None) -> Iterator[Cluster]:
    """A real Kubernetes with one node, and more as they are asked for, shared by all tests that want it."""
    if reason := host.missing():
        pytest.skip(reason)
    with start_cluster() as cluster:
        cluster.node()
        yield cluster
