"""The real kubelet as a lab: several nodes of one cluster, each of which runs one test after another.

The kubelet has waits of 30 and 45 seconds, and checks most state once a second: a sequence of all tests would
take minutes. Each node has its own namespace and drivers, so its tests do not affect the others.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from dradriver.kube import (
    CLAIMS,
    EVENTS,
    NAMESPACES,
    PODS,
    SERVICE_ACCOUNTS,
    SLICES,
    Client,
    NotFound,
    Resource,
)
from tests.conformance.kubelet.lab import Lab
from tests.conformance.kubelet.suite import KubeletSuite
from tests.e2e.bed.cluster import Cluster
from tests.e2e.bed.credentials import NODES
from tests.e2e.bed.nodes.node import Node

PATIENCE: Final = 100.0
"""Longer than a call's limit and what comes after it."""
_LONG: Final = ("takes_too_long", "deleted_without_the_kubelet", "slices")
"""Parts of the names of tests that wait for a limit: these start first."""

Case = Callable[[Lab], Awaitable[None]]


def cases(suite: KubeletSuite) -> dict[str, Case]:
    """Return the tests of the suite by name, those with long waits first."""
    found = dict(_cases(suite))
    return dict(sorted(found.items(), key=lambda each: not any(part in each[0] for part in _LONG)))


def _cases(suite: KubeletSuite) -> Iterator[tuple[str, Case]]:
    for name in dir(suite):
        if name.startswith("test_"):
            test = getattr(suite, name)
            marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
            if not marks:
                yield name, test
            for mark in marks:
                argument, values = mark.args
                for value in values:
                    yield f"{name}[{value}]", _with(test, argument, value)


def _with(test: Callable[..., Awaitable[None]], argument: str, value: str) -> Case:
    return lambda lab: test(lab, **{argument: value})


class RealNode:
    """A node of the bed, whose methods block, in the form of the suite."""

    def __init__(self, node: Node) -> None:
        self.name, self.registry, self.plugins, self.cdi = node.name, node.registry, node.plugins, node.cdi
        self._node, self._up = node, True

    async def start(self) -> None:
        """Start the kubelet with the same state."""
        await asyncio.to_thread(self._node.start)
        self._up = True

    async def stop(self) -> None:
        """Stop the kubelet."""
        self._up = False
        await asyncio.to_thread(self._node.stop)

    async def ensure_started(self) -> None:
        """Start the kubelet if a failed test has stopped it."""
        if not self._up:
            await self.start()


async def _remove(client: Client, resource: Resource, namespace: str) -> None:
    """Delete all objects of a kind and wait until the claims of pods are unprepared."""
    while items := (await client.list(resource, namespace, into=dict[str, Any])).items:
        for each in items:
            if "deletionTimestamp" not in each["metadata"]:
                await client.delete(resource, each["metadata"]["name"], namespace)
        await asyncio.sleep(0.1)


async def _lab(client: Client, cluster: Cluster, name: str) -> Lab:
    """Return a lab on a node, with a namespace that has the name of the node."""
    node = RealNode(await asyncio.to_thread(cluster.node, name))
    await client.create(NAMESPACES, {"metadata": {"name": name}}, into=bytes)

    async def release() -> None:
        async with asyncio.timeout(PATIENCE):
            await node.ensure_started()
            await _remove(client, PODS, name)

    lab = Lab(client, node, PATIENCE, name, release)
    await lab.until("service account", lambda: _has_account(client, name))
    return lab


async def _has_account(client: Client, namespace: str) -> bool:
    with contextlib.suppress(NotFound):
        await client.get(SERVICE_ACCOUNTS, "default", namespace, into=bytes)
        return True
    return False


async def _clear(lab: Lab) -> None:
    """Remove all objects of a test before the next one on the same node."""
    assert lab.release is not None
    await lab.release()
    for resource in (CLAIMS, EVENTS):
        await _remove(lab.client, resource, lab.namespace)
    for name in await lab.slices():
        await lab.client.delete(SLICES, f"{lab.node.name}.{name}")


class Runs:
    """Running and finished tests, by name."""

    def __init__(self, wanted: Mapping[str, Case]) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = dict(wanted)
        self._results = {name: loop.create_future() for name in wanted}

    async def result(self, name: str) -> None:
        """Wait until the test has passed; raise its exception."""
        await asyncio.shield(self._results[name])

    async def work(self, client: Client, cluster: Cluster, node: str) -> None:
        """Run tests until none is left; a node that became unusable fails the rest."""
        try:
            lab = await _lab(client, cluster, node)
            while self._waiting:
                name = next(iter(self._waiting))
                await self._run(lab, self._waiting.pop(name), self._results[name])
        except Exception as error:
            for each in self._results.values():
                if not each.done():
                    each.set_exception(error)
            raise

    async def _run(self, lab: Lab, test: Case, result: "asyncio.Future[None]") -> None:
        try:
            await test(lab)
        except Exception as error:
            result.set_exception(error)
        await _clear(lab)
        if not result.done():
            result.set_result(None)


@asynccontextmanager
async def running(
    cluster: Cluster, wanted: Mapping[str, Case], nodes: Sequence[str] = NODES
) -> AsyncIterator[Runs]:
    """Run tests on several nodes at once; cancel them at the end."""
    runs = Runs(wanted)
    async with await Client.connect(str(cluster.kubeconfig())) as client:
        workers = [
            asyncio.create_task(runs.work(client, cluster, node), name=node) for node in nodes[: len(wanted)]
        ]
        try:
            yield runs
        finally:
            for each in workers:
                each.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
