"""The embedded kubelet passes the kubelet suite."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.cluster.kubelet import Kubelet
from dradriver.cluster.kubelet.timings import Timings
from dradriver.cluster.runtime import Runtime, choose_runtime
from dradriver.errors import UsageError
from dradriver.kube import Client
from tests.conformance.kubelet_lab import Lab
from tests.conformance.kubelet_suite import KubeletSuite

CALL_SECONDS = 0.5
CLEANUP_SECONDS = 1.0
TIMINGS = Timings(retry=0.2, reconcile=0.2, restart=0.2, stop_grace=0.0)


class EmbeddedNode:
    """The embedded kubelet, which can be started again over the same folder."""

    def __init__(self, client: Client, directory: Path, runtime: Runtime) -> None:
        self.name = "node-1"
        self._client, self._directory, self._runtime = client, directory, runtime
        self.kubelet = self._make()
        self.registry, self.plugins = self.kubelet.registry, self.kubelet.plugins
        self.cdi = self.kubelet.cdi

    def _make(self) -> Kubelet:
        return Kubelet(
            self._client,
            self.name,
            self._directory,
            self._runtime,
            slice_cleanup_seconds=CLEANUP_SECONDS,
            prepare_timeout=CALL_SECONDS,
            timings=TIMINGS,
        )

    async def start(self) -> None:
        """A new kubelet over the same folder."""
        self.kubelet = self._make()
        await self.kubelet.start()

    async def stop(self) -> None:
        """Stops it."""
        await self.kubelet.stop()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    server = ApiServer(tmp_path / "api")
    await server.start()
    server.write_kubeconfig(tmp_path / "kubeconfig")
    async with await Client.connect(str(tmp_path / "kubeconfig")) as client:
        yield client
    await server.stop()


@pytest.fixture
async def lab(client: Client, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Lab]:
    wanted = request.param if hasattr(request, "param") else "process"
    try:
        runtime = await choose_runtime(wanted)
    except UsageError as error:
        pytest.skip(str(error))
    node = EmbeddedNode(client, tmp_path / "n", runtime)
    await node.start()
    yield Lab(client, node, patience=10, call_seconds=CALL_SECONDS, cleanup_seconds=CLEANUP_SECONDS)
    await node.stop()


class TestEmbeddedKubelet(KubeletSuite):
    """Containers are plain processes here, for speed, but where a process can't show what is asked."""

    @pytest.mark.parametrize("lab", ["podman", "runc"], indirect=True)
    async def test_device_metadata_is_mounted(self, lab: Lab) -> None:
        await super().test_device_metadata_is_mounted(lab)

    @pytest.mark.parametrize("lab", ["podman", "runc"], indirect=True)
    async def test_a_device_node_is_in_its_container_alone(self, lab: Lab) -> None:
        await super().test_a_device_node_is_in_its_container_alone(lab)

    async def logs(self, lab: Lab, pod: str, container: str) -> str:
        assert isinstance(lab.node, EmbeddedNode)
        chunks = await lab.node.kubelet.logs("default", pod, container, False, None)
        return b"".join([chunk async for chunk in chunks]).decode()
