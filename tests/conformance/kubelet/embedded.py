"""The embedded kubelet as a lab: fixtures for the suite and for tests of the embedded kubelet alone."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.cluster.kubelet import Kubelet, Timings
from dradriver.cluster.runtime import Runtime, choose_runtime
from dradriver.errors import UsageError
from dradriver.kube import Client
from tests.conformance.kubelet.lab import Lab

TIMINGS = Timings(
    slice_cleanup=5.0,
    call=10.0,
    retry=0.2,
    reconcile=0.2,
    restart=0.2,
    heartbeat=0.5,
    stop_grace=0.0,
)


class EmbeddedNode:
    """The embedded kubelet, which can restart with the same folder."""

    def __init__(self, client: Client, directory: Path, runtime: Runtime, timings: Timings) -> None:
        self.name = "node-1"
        self._client, self._directory, self.runtime, self._timings = client, directory, runtime, timings
        self.kubelet = self._make()
        self.registry, self.plugins = self.kubelet.registry, self.kubelet.plugins
        self.cdi = self.kubelet.cdi

    def _make(self) -> Kubelet:
        return Kubelet(self._client, self.name, self._directory, self.runtime, timings=self._timings)

    async def start(self) -> None:
        """Start a new kubelet with the same folder."""
        self.kubelet = self._make()
        await self.kubelet.start()

    async def stop(self) -> None:
        """Stop the kubelet."""
        await self.kubelet.stop()

    async def logs(self, pod: str, container: str = "main") -> str:
        """Return the log of a container of a pod in `default`."""
        chunks = await self.kubelet.logs("default", pod, container, follow=False, tail=None)
        return b"".join([chunk async for chunk in chunks]).decode()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiServer]:
    """Start an API server."""
    server = ApiServer(tmp_path / "api")
    await server.start()
    await asyncio.to_thread(server.write_kubeconfig, tmp_path / "kubeconfig")
    yield server
    await server.stop()


@pytest.fixture
async def client(api: ApiServer, tmp_path: Path) -> AsyncIterator[Client]:
    """Connect as an administrator."""
    async with await Client.connect(str(tmp_path / "kubeconfig")) as client:
        yield client


@pytest.fixture
async def node_client(api: ApiServer, tmp_path: Path) -> AsyncIterator[Client]:
    """Connect as the node's own user."""
    await asyncio.to_thread(api.write_kubeconfig, tmp_path / "node.kubeconfig", "node:node-1")
    async with await Client.connect(str(tmp_path / "node.kubeconfig")) as client:
        yield client


@pytest.fixture
async def lab(client: Client, node_client: Client, request: pytest.FixtureRequest) -> AsyncIterator[Lab]:
    """Start one node; its containers are processes unless the test sets another runtime, or other timings."""
    given = getattr(request, "param", "process")
    wanted, timings = ("process", given) if isinstance(given, Timings) else (given, TIMINGS)
    try:
        runtime = await choose_runtime(wanted)
    except UsageError as error:
        pytest.skip(str(error))
    # The path of a socket has 107 bytes at most: pytest's own folders are too long.
    with tempfile.TemporaryDirectory(prefix="k") as short:
        node = EmbeddedNode(node_client, Path(short), runtime, timings)
        await node.start()
        yield Lab(client, node, patience=40)
        await node.stop()
