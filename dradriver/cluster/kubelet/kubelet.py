"""The kubelet stand-in of one node: starts and stops its parts."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from dradriver.cluster.kubelet.claims.health import HealthCache
from dradriver.cluster.kubelet.claims.manager import ClaimManager
from dradriver.cluster.kubelet.node_object import NodeObject
from dradriver.cluster.kubelet.plugins.plugin import RegisteredPlugin
from dradriver.cluster.kubelet.plugins.plugin_store import PluginStore
from dradriver.cluster.kubelet.plugins.registration import RegistryWatcher
from dradriver.cluster.kubelet.plugins.slices import wipe_slices
from dradriver.cluster.kubelet.pods.pod_worker import NodeTools
from dradriver.cluster.kubelet.pods.pods import PodManager
from dradriver.cluster.kubelet.timings import Timings
from dradriver.cluster.runtime import Runtime
from dradriver.errors import UsageError
from dradriver.kube import Client, EventRecorder

__all__ = ["Kubelet"]

_log = logging.getLogger(__name__)

_FOLDERS = ("plugins", "plugins_registry", "cdi", "pods")


class Kubelet:
    """The kubelet of one node: `await start()`, later `await stop()`.

    A kubelet can start again with the same folder.

    If the process is killed at any point, the next start with the same folder ends the remaining containers,
    and continues with the claims in the checkpoint.

    Attributes:
        node: the node's name.
        plugins, registry, cdi: the drivers' folders for sockets and data, for registration sockets, and for CDI
            specs.
    """

    def __init__(
        self,
        client: Client,
        node_name: str,
        directory: Path,
        runtime: Runtime,
        *,
        timings: Timings | None = None,
    ) -> None:
        """Create a kubelet that does not run yet. `start` starts it.

        Args:
            client: client of the API server, with the identity of the node or of an administrator.
            node_name: name of the node.
            directory: the node's own folder (`DIR/nodes/NODE`); created if it is missing.
            runtime: the container runtime.
            timings: time limits and intervals; by default the values of Kubernetes 1.37.
        """
        times = timings or Timings()
        self.node = node_name
        self._directory = directory.absolute()
        self.plugins, self.registry, self.cdi, self._pods_folder = (self._directory / name for name in _FOLDERS)
        self._runtime = runtime
        self._owner = str(self._directory)
        self._client = client
        self._node_object = NodeObject(client, node_name, runtime=runtime.name, period=times.heartbeat)
        health = HealthCache()
        self._claims = ClaimManager(client, self._directory / "dra_manager_state", self._plugin_for)
        self._events = EventRecorder(client, "kubelet", node_name)
        tools = NodeTools(
            client=client,
            claims=self._claims,
            health=health,
            runtime=runtime,
            events=self._events,
            timings=times,
            owner=self._owner,
            pods_folder=self._pods_folder,
            cdi_folder=self.cdi,
        )
        self._pods = PodManager(tools, node_name)
        self._store = PluginStore(
            lambda driver: wipe_slices(client, node_name, driver),
            wipe_seconds=times.slice_cleanup,
            call_timeout=times.call,
            health=health,
            on_usable=lambda _driver: self._pods.retry_now(),
            on_health_changed=self._pods.on_health_changed,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()

    @property
    def failure(self) -> str:
        """The background task that failed because of a defect, with its error; empty if none failed."""
        for task in self._tasks:
            if task.done() and not task.cancelled() and (error := task.exception()):
                return f"{task.get_name()}: {error!r}"
        return ""

    async def start(self) -> None:
        """Create the folders and the Node, end the containers of an earlier run, and start all tasks.

        Raises:
            UsageError: the folder can't be used.
            DraError: the API server rejected the Node.
        """
        try:
            await asyncio.to_thread(self._make_folders)
        except OSError as error:
            raise UsageError(f"folder {self._directory} of node {self.node}: {error}") from error
        await self._runtime.clean(self._owner)
        await self._claims.load()
        await self._node_object.register()
        await self._stack.enter_async_context(self._events)
        work: list[tuple[str, Coroutine[Any, Any, None]]] = [
            ("heartbeat", self._node_object.run()),
            # No driver has registered yet, and drivers of an earlier run may never register again.
            ("wipe slices", wipe_slices(self._client, self.node)),
            ("registration", RegistryWatcher(self.registry, self._store).run()),
            ("pods", self._pods.run()),
        ]
        self._tasks = [
            asyncio.create_task(coroutine, name=f"kubelet {self.node}: {name}") for name, coroutine in work
        ]
        _log.info("node %s is ready: %s", self.node, self._runtime.describe())

    async def stop(self) -> None:
        """End the containers and all tasks. Claims stay prepared. It is safe to call this twice."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self._stack.aclose()
        await self._store.stop()
        await self._runtime.clean(self._owner)

    async def logs(
        self,
        namespace: str,
        pod: str,
        container: str,
        follow: bool,  # noqa: FBT001 - the hook's form
        tail: int | None,
    ) -> AsyncIterator[bytes]:
        """Yield the output of a container. The API server calls this as its `pod_logs`.

        Args:
            namespace: the pod's namespace.
            pod: the pod's name.
            container: the container's name.
            follow: whether to continue until the container ends.
            tail: number of last lines to yield; None: all lines.

        Raises:
            NotFoundError: the pod is not on this node, or it does not have the container.
            UsageError: the container has not started yet.
        """
        return await self._pods.logs(namespace, pod, container, follow, tail)

    def _plugin_for(self, driver: str) -> RegisteredPlugin:
        return self._store.get(driver)

    def _make_folders(self) -> None:
        for name in _FOLDERS:
            (self._directory / name).mkdir(parents=True, exist_ok=True)
