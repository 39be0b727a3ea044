"""Fixtures of all tests, the check for leftover tasks, and the markers of the tiers."""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from dradriver.aio.bulk_load import bulk_load
from tests.e2e import host
from tests.e2e.bed import control_plane, programs
from tests.e2e.bed.bed import Bed
from tests.e2e.bed.cluster import Cluster, start_cluster
from tests.e2e.bed.leftovers import Machine

pytest_plugins = ("tests.time_limits",)

# The time of an example has no meaning on a slow or busy machine.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

TIERS = ("interop", "e2e", "guest", "gpu", "release")
"""Markers of tests that run only when they are asked for; the tests of a folder of that name have it."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from scanning all tests again and again, a tenth of the time of a run."""
    with bulk_load():
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of each tier's folder, and deselect them unless `-m` names the tier."""
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


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a short name: paths of Unix sockets have 107 bytes, and pytest-xdist needs some."""
    return tmp_path_factory.mktemp("t")


@pytest.fixture
async def tasks_left() -> AsyncIterator[None]:
    """Fail if a task that was started after this fixture still runs at the end."""
    before = asyncio.all_tasks()
    yield
    left: set[asyncio.Task[object]] = set()
    # On a busy machine, a canceled task may need many turns of the loop to end.
    for _ in range(500):
        left = {t for t in asyncio.all_tasks() - before if not t.done() and t is not asyncio.current_task()}
        if not left:
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"left behind: {sorted(task.get_name() for task in left)}: {left}")


@pytest.fixture(autouse=True)
def no_task_is_left_behind(request: pytest.FixtureRequest) -> None:
    """Check after each async test that its tasks have ended."""
    if inspect.iscoroutinefunction(getattr(request.node, "obj", None)):
        request.getfixturevalue("tasks_left")


@pytest.fixture(scope="session")
def machine_as_found(pytestconfig: pytest.Config) -> Iterator[None]:
    """Fail the run if a bed has left processes, mounts, links, packet filters, sysctls and so on."""
    machine = Machine()
    yield
    if left := machine.differences():
        pytest.fail("the machine is not as it was found:\n" + "\n".join(left), pytrace=False)
    capture = pytestconfig.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        print(f"\nThe machine is as it was found: {', '.join(machine.compared)}.")


@pytest.fixture(scope="session")
def real_control_plane(machine_as_found: None) -> Iterator[Bed]:
    """Start a real etcd and kube-apiserver, shared by all tests that are marked `e2e`."""
    if reason := programs.missing(*programs.CONTROL_PLANE):
        pytest.skip(reason)
    with Bed() as bed:
        control_plane.start(bed)
        yield bed


@pytest.fixture(scope="session")
def real_cluster(machine_as_found: None) -> Iterator[Cluster]:
    """Start a real Kubernetes with one node, and more on demand, shared by all tests that use it."""
    if reason := host.missing():
        pytest.skip(reason)
    with start_cluster() as cluster:
        cluster.node()
        yield cluster
