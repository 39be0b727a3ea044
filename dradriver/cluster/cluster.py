"""`EmbeddedCluster`: assembles the parts of the embedded control plane, and starts and stops them in order."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from dradriver.allocator import BUDGET, ORDERED, Features, Order
from dradriver.cluster.apiserver import ApiServer, FeatureGates
from dradriver.cluster.cel_check import check_selector
from dradriver.cluster.folder import DataFolder
from dradriver.cluster.kubelet import Kubelet, Timings
from dradriver.cluster.runtime import Runtime, choose_runtime
from dradriver.control.controllers import Controllers
from dradriver.control.extended import ScoringStrategy
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.settings import SchedulerSettings
from dradriver.errors import NotFoundError, UsageError
from dradriver.kube import Client
from dradriver.kube.definitions import install_definitions

__all__ = ["EmbeddedCluster"]

_NO_NODES: Final = "no node has a kubelet"


def _list_node_names(nodes: int | str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(nodes, int):
        return tuple(f"node-{i + 1}" for i in range(nodes))
    return (nodes,) if isinstance(nodes, str) else tuple(nodes)


class EmbeddedCluster:
    """An embedded cluster in one folder: `async with EmbeddedCluster(Path("data")) as cluster`.

    The folder contains the state. The next start continues from this state, even after kill -9. Names and
    addresses stay the same, so the kubeconfigs and drivers of an earlier run still work.

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
        budget: int = BUDGET,
        order: Order = ORDERED,
        scoring: ScoringStrategy | None = None,
    ) -> None:
        """Create a cluster that does not run yet. `start` starts it.

        Args:
            directory: the folder for all state; created if it is missing.
            nodes: the name of one node, names of nodes, or the number of nodes (`node-1` ...). Empty: the
                cluster has no kubelet stand-ins, and its nodes are only objects.
            port: the API server's port; 0 for the port of the last run, or any free port.
            feature_gates: gates that differ from Kubernetes 1.37's defaults.
            runtime: the container runtime, or its name; by default the first runtime that works on this
                machine.
            slice_cleanup_seconds: if a driver has no connection for this many seconds, its ResourceSlices are
                deleted.
            binding_timeout_seconds: seconds that a claim may wait for binding conditions after its allocation.
            budget: work in microseconds of one core after which the allocator gives up on a node.
            order: the order in which the scheduler prefers devices of a node.
            scoring: the scores of nodes for pods with extended resources; by default all nodes have the same
                score.

        Raises:
            UsageError: a feature gate is unknown, or needs another gate that is off.
        """
        self.directory = directory.absolute()
        self.nodes = _list_node_names(nodes)
        self._folder = DataFolder(directory)
        self._gates = FeatureGates(dict(feature_gates or {}))
        self._server = ApiServer(
            self._folder.api_server, port=port, feature_gates=self._gates.settings, cel_check=check_selector
        )
        self._preferred_runtime = runtime
        self._slice_cleanup_seconds = slice_cleanup_seconds
        self._binding_timeout = timedelta(seconds=binding_timeout_seconds)
        self._budget = budget
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
        """One sentence that describes the container runtime."""
        return self._runtime

    @property
    def kubeconfig_path(self) -> Path:
        """The administrator's kubeconfig."""
        return self._folder.kubeconfig

    def node_dir(self, name: str) -> Path:
        """Return a node's folder, with `plugins`, `plugins_registry` and `cdi`.

        Args:
            name: the node's name, one of `nodes`.
        """
        return self._folder.node(name)

    def node_kubeconfig(self, name: str) -> Path:
        """Return the kubeconfig of the drivers on a node, for a service account that is bound to that node.

        Args:
            name: the node's name, one of `nodes`.
        """
        return self._folder.node(name) / "kubeconfig"

    @property
    def readiness(self) -> str:
        """Return why the cluster is not ready; empty if it is ready."""
        return "" if self._controllers is not None else "the cluster is starting or stopping"

    async def liveness(self) -> str:
        """Return the failed background tasks of kubelets; empty if none failed.

        A failed task runs again only after a restart of the cluster.
        """
        return "; ".join(filter(None, (kubelet.failure for kubelet in self._kubelets.values())))

    @property
    def metrics(self) -> ControlMetrics:
        """The metrics of scheduler and controllers.

        Raises:
            UsageError: the cluster is not running.
        """
        if self._controllers is None:
            raise UsageError(f"the cluster in {self.directory} has not been started")
        return self._controllers.metrics

    def client(self) -> Client:
        """Return the administrator's client, which works until the cluster stops.

        Raises:
            UsageError: the cluster is not running.
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
        """Start all parts and return when pods can be created.

        If a part fails to start, all started parts are stopped.

        Raises:
            UsageError: the folder, the port or the runtime can't be used, or another cluster uses the folder.
        """
        async with AsyncExitStack() as stack:
            await asyncio.to_thread(self._folder.lock)
            stack.callback(self._folder.unlock)
            stack.push_async_callback(self._server.stop)
            await self._server.start()
            await asyncio.to_thread(self._write_kubeconfigs)
            stack.callback(self._clear)
            self._client = await stack.enter_async_context(await Client.connect(str(self.kubeconfig_path)))
            await install_definitions(self._client)
            self._controllers = Controllers(
                self._client,
                SchedulerSettings(
                    features=Features.of_gates(self._gates.resolved()),
                    binding_timeout=self._binding_timeout,
                    budget=self._budget,
                    order=self._order,
                    scoring=self._scoring or ScoringStrategy(),
                ),
                taint_rules=self._gates.enabled("DRADeviceTaintRules"),
            )
            await stack.enter_async_context(self._controllers)
            await self._start_kubelets(stack)
            self._server.pod_logs = self._logs
            self._stack = stack.pop_all()

    async def stop(self) -> None:
        """Stop all parts, the containers first and the API server last. It is safe to call this twice."""
        await self._stack.aclose()

    def _clear(self) -> None:
        """Drop the references to stopped parts, even if a part failed to start."""
        self._client = self._controllers = None
        self._kubelets.clear()

    async def _start_kubelets(self, stack: AsyncExitStack) -> None:
        if not self.nodes:
            return
        wanted = self._preferred_runtime
        runtime = await choose_runtime(wanted) if isinstance(wanted, str | None) else wanted
        self._runtime = runtime.describe()
        timings = Timings(slice_cleanup=self._slice_cleanup_seconds)
        for name in self.nodes:
            session = await Client.connect(str(self._kubelet_kubeconfig(name)), user_agent="kubelet")
            client = await stack.enter_async_context(session)
            kubelet = Kubelet(client, name, self.node_dir(name), runtime, timings=timings)
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
            raise NotFoundError(f"pod {namespace}/{pod}: not on a node with a kubelet")
        return await kubelet.logs(namespace, pod, container, follow, tail)
