"""`EmbeddedCluster`: assembles the parts of the embedded control plane, starts and stops them in order."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from dradriver.allocator import MAX_STEPS, ORDERED, Features, Order
from dradriver.cluster.apiserver import ApiServer, FeatureGates
from dradriver.cluster.cel_check import cel_problem
from dradriver.cluster.folder import DataFolder
from dradriver.cluster.kubelet import Kubelet
from dradriver.cluster.runtime import Runtime, choose_runtime
from dradriver.control.controllers import Controllers
from dradriver.control.extended import ScoringStrategy
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.errors import NotFoundError, UsageError
from dradriver.kube import Client

__all__ = ["EmbeddedCluster"]

_NO_NODES: Final = "no node runs containers"


def _node_names(nodes: int | str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(nodes, int):
        return tuple(f"node-{i + 1}" for i in range(nodes))
    return (nodes,) if isinstance(nodes, str) else tuple(nodes)


class EmbeddedCluster:
    """An embedded cluster in one folder: `async with EmbeddedCluster(Path("data")) as cluster`.

    The folder keeps the state. The next start continues from it, even after kill -9. Names and addresses stay
    the same, so the kubeconfigs and drivers of an earlier run still work.

    Attributes:
        directory: the folder.
        nodes: the names of the nodes that have a kubelet stand-in.
    """

    def __init__(  # noqa: PLR0913 - one argument a setting
        self,
        directory: Path,
        *,
        nodes: int | str | Sequence[str] = ("node-1",),
        port: int = 0,
        feature_gates: Mapping[str, bool] | None = None,
        runtime: Runtime | str | None = None,
        slice_cleanup_seconds: float = 30.0,
        binding_timeout_seconds: float = 600.0,
        max_steps: int = MAX_STEPS,
        order: Order = ORDERED,
        scoring: ScoringStrategy | None = None,
    ) -> None:
        """Describe a cluster. Nothing happens before `start`.

        Args:
            directory: the folder for all state; created if missing.
            nodes: the name of a node, names of nodes, or their number (`node-1` ...); none for a cluster whose
                nodes are objects only.
            port: the API server's port; 0 for the port of the last run, or any free one.
            feature_gates: gates that differ from Kubernetes 1.37's defaults.
            runtime: the container runtime, or its name; by default the first that works here.
            slice_cleanup_seconds: a driver that is away for this long loses its ResourceSlices.
            binding_timeout_seconds: how long after its allocation a claim may wait for binding conditions.
            max_steps: number of tried devices after which the allocator gives up on a node.
            order: the order in which the scheduler prefers devices of a node.
            scoring: the scores of nodes for pods with extended resources; by default all nodes score the same.

        Raises:
            UsageError: a feature gate is unknown, or needs another that is off.
        """
        self.directory = directory.absolute()
        self.nodes = _node_names(nodes)
        self._folder = DataFolder(directory)
        self._gates = FeatureGates(dict(feature_gates or {}))
        self._server = ApiServer(
            self._folder.api_server, port=port, feature_gates=self._gates.settings, cel_check=cel_problem
        )
        self._wanted_runtime = runtime
        self._slice_cleanup_seconds = slice_cleanup_seconds
        self._binding_timeout = timedelta(seconds=binding_timeout_seconds)
        self._max_steps = max_steps
        self._order = order
        self._scoring = scoring
        self._runtime = _NO_NODES
        self._client: Client | None = None
        self._controllers: Controllers | None = None
        self._kubelets: dict[str, Kubelet] = {}
        self._stack = AsyncExitStack()

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return self._server.url

    @property
    def api_server(self) -> ApiServer:
        """The API server, for tests that inject faults (`faults`)."""
        return self._server

    @property
    def runtime(self) -> str:
        """The container runtime, described in a sentence."""
        return self._runtime

    @property
    def kubeconfig_path(self) -> Path:
        """The administrator's kubeconfig."""
        return self._folder.kubeconfig

    def node_dir(self, name: str) -> Path:
        """Return a node's folder, with `plugins`, `plugins_registry` and `cdi`."""
        return self._folder.node(name)

    def node_kubeconfig(self, name: str) -> Path:
        """Return the kubeconfig of the drivers on a node, for a service account that is bound to that node."""
        return self._folder.node(name) / "kubeconfig"

    @property
    def readiness(self) -> str:
        """Return why the cluster does not work yet; empty when it does."""
        return "" if self._controllers is not None else "the cluster is starting or stopping"

    async def liveness(self) -> str:
        """Return an empty text, because a restart helps only against an event loop that hangs."""
        return ""

    @property
    def metrics(self) -> ControlMetrics:
        """The metrics of scheduler and controllers.

        Raises:
            UsageError: the cluster does not run.
        """
        if self._controllers is None:
            raise UsageError(f"the cluster in {self.directory} has not been started")
        return self._controllers.metrics

    def client(self) -> Client:
        """The administrator's session, which ends with the cluster.

        Raises:
            UsageError: the cluster does not run.
        """
        if self._client is None:
            raise UsageError(f"the cluster in {self.directory} has not been started")
        return self._client

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start everything and return when pods can be created.

        If a part fails, every started part is stopped.

        Raises:
            UsageError: the folder, the port or the runtime can't be used, or a cluster runs in the folder.
        """
        async with AsyncExitStack() as stack:
            await asyncio.to_thread(self._folder.lock)
            stack.callback(self._folder.unlock)
            stack.push_async_callback(self._server.stop)
            await self._server.start()
            await asyncio.to_thread(self._write_kubeconfigs)
            stack.callback(self._forget)
            self._client = await stack.enter_async_context(await Client.connect(str(self.kubeconfig_path)))
            self._controllers = Controllers(
                self._client,
                features=Features.of_gates(self._gates.resolved()),
                binding_timeout=self._binding_timeout,
                max_steps=self._max_steps,
                order=self._order,
                scoring=self._scoring,
                taint_rules=self._gates.enabled("DRADeviceTaintRules"),
            )
            await stack.enter_async_context(self._controllers)
            await self._start_kubelets(stack)
            self._server.pod_logs = self._logs
            self._stack = stack.pop_all()

    async def stop(self) -> None:
        """Stop everything, containers first and the API server last. Safe to call twice."""
        await self._stack.aclose()

    def _forget(self) -> None:
        """Drop the references to stopped parts, even if a part failed to start."""
        self._client = self._controllers = None
        self._kubelets.clear()

    async def _start_kubelets(self, stack: AsyncExitStack) -> None:
        if not self.nodes:
            return
        wanted = self._wanted_runtime
        runtime = await choose_runtime(wanted) if isinstance(wanted, str | None) else wanted
        self._runtime = runtime.describe()
        for name in self.nodes:
            session = await Client.connect(str(self._kubelet_kubeconfig(name)), user_agent="kubelet")
            client = await stack.enter_async_context(session)
            kubelet = Kubelet(
                client,
                name,
                self.node_dir(name),
                runtime,
                slice_cleanup_seconds=self._slice_cleanup_seconds,
            )
            stack.push_async_callback(kubelet.stop)
            await kubelet.start()
            self._kubelets[name] = kubelet

    def _write_kubeconfigs(self) -> None:
        self._server.write_kubeconfig(self.kubeconfig_path)
        for name in self.nodes:
            self._server.write_kubeconfig(self.node_kubeconfig(name), f"driver:{name}")
            self._server.write_kubeconfig(self._kubelet_kubeconfig(name), f"node:{name}")

    def _kubelet_kubeconfig(self, name: str) -> Path:
        return self._folder.node(name) / "kubelet.kubeconfig"

    async def _logs(
        self,
        namespace: str,
        pod: str,
        container: str,
        follow: bool,  # noqa: FBT001 - the hook's form
        tail: int | None,
    ) -> AsyncIterator[bytes]:
        known = self._controllers.caches.pods.items.get(f"{namespace}/{pod}") if self._controllers else None
        kubelet = self._kubelets.get(known.spec.node_name) if known else None
        if kubelet is None:
            raise NotFoundError(f"pod {namespace}/{pod} is on no node that runs containers")
        return await kubelet.logs(namespace, pod, container, follow, tail)
