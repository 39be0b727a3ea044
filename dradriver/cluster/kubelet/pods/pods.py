"""Manages all pods of the node: runs their workers, unprepares claims of deleted pods, finds logs."""

import asyncio
import logging
from collections.abc import AsyncIterator

from dradriver.cluster.kubelet.plugins.plugin_store import NotRegisteredError
from dradriver.cluster.kubelet.pods.container_runner import remove_folders
from dradriver.cluster.kubelet.pods.container_state import Stage
from dradriver.cluster.kubelet.pods.logs import read_log
from dradriver.cluster.kubelet.pods.pod_types import NodePod
from dradriver.cluster.kubelet.pods.pod_worker import NodeTools, PodWorker
from dradriver.errors import DraError, NotFoundError, UsageError
from dradriver.kube import PODS, Cache

__all__ = ["PodManager"]

_log = logging.getLogger(__name__)


class PodManager:
    """Runs the pods that are bound to the node. `run()` runs until cancelled, then ends all containers."""

    def __init__(self, tools: NodeTools, node: str) -> None:
        self._tools = tools
        self._node = node
        self._workers: dict[str, tuple[PodWorker, asyncio.Task[None]]] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Start a worker for every pod and pass it each new version of the pod."""
        fields = f"spec.nodeName={self._node}"
        try:
            async with Cache(self._tools.client, PODS, NodePod, fields=fields) as cache:
                cache.subscribe(lambda _kind, _old, _new: self._changed.set())
                await cache.wait_synced()
                pods = {pod.metadata.uid: pod for pod in cache.items.values()}
                await asyncio.to_thread(remove_folders, self._tools.pods_folder, set(pods))
                self._sync_workers(pods)
                reconcile = asyncio.create_task(self._reconcile(), name=f"claims of gone pods of {self._node}")
                try:
                    while True:
                        self._changed.clear()
                        self._sync_workers({pod.metadata.uid: pod for pod in cache.items.values()})
                        await self._changed.wait()
                finally:
                    reconcile.cancel()
                    await asyncio.gather(reconcile, return_exceptions=True)
        finally:
            tasks = [task for _, task in self._workers.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def retry_now(self) -> None:
        """Wake all workers to retry failed steps, because a driver became usable."""
        for worker, _ in self._workers.values():
            worker.retry_now()

    def on_health_changed(self, driver: str, devices: set[tuple[str, str]]) -> None:
        """Wake the workers of pods with these devices (pool, device), so that they report the health."""
        for uid in self._tools.claims.find_pods(driver, devices):
            if uid in self._workers:
                self._workers[uid][0].update(self._workers[uid][0].pod)

    async def logs(
        self,
        namespace: str,
        pod: str,
        container: str,
        follow: bool,  # noqa: FBT001 - the API server's hook has this form
        tail: int | None,
    ) -> AsyncIterator[bytes]:
        """Yield the output of a pod's container; with `follow`, until the container ends.

        Raises:
            NotFoundError: the pod is not on this node, or it does not have the container.
            UsageError: the container has not started yet.
        """
        # If several pods had this name one after another, the last pod counts.
        workers = [worker for worker, _ in self._workers.values()]
        worker = next((w for w in reversed(workers) if w.pod.ref == f"{namespace}/{pod}"), None)
        if worker is None:
            raise NotFoundError(f"pod {namespace}/{pod} is not on node {self._node}")
        containers = worker.containers
        if container not in containers.states:
            raise NotFoundError(f"container {container} is not valid for pod {pod}")
        state = containers.states[container]
        if state.stage is Stage.WAITING and state.last_exit is None:
            raise UsageError(f'container "{container}" in pod "{pod}" is waiting to start: {state.reason}')
        attempt = state.restarts

        def is_running() -> bool:
            now = containers.states[container]
            return follow and now.stage is Stage.RUNNING and now.restarts == attempt

        return read_log(containers.get_log(container), self._tools.runtime.parse_log_line, tail, is_running)

    def _sync_workers(self, present: dict[str, NodePod]) -> None:
        for uid, (worker, task) in list(self._workers.items()):
            if uid not in present:
                # An ended worker stays in the table until the watch reports that its pod is gone.
                if task.done():
                    del self._workers[uid]
                else:
                    worker.update(None)
            elif task.done() and (error := task.exception()):
                # The worker has a defect. At the pod's next change, a new worker is started.
                _log.error("worker of pod %s failed", worker.pod.ref, exc_info=error)
                del self._workers[uid]
                del present[uid]
        for uid, pod in present.items():
            if uid in self._workers:
                self._workers[uid][0].update(pod)
            else:
                worker = PodWorker(self._tools, pod)
                task = asyncio.create_task(worker.run(), name=f"pod {pod.ref}")
                task.add_done_callback(lambda _: self._changed.set())
                self._workers[uid] = (worker, task)

    async def _reconcile(self) -> None:
        """Unprepare claims of pods without a worker: they were deleted while the kubelet was not running."""
        while True:
            for namespace, uid in self._tools.claims.list_inactive_pods(set(self._workers)):
                try:
                    await self._tools.claims.unprepare(uid, namespace)
                except NotRegisteredError:
                    pass  # the error is already logged
                except DraError as error:
                    _log.warning("claims of deleted pod with UID %s can't be unprepared yet: %s", uid, error)
            await asyncio.sleep(self._tools.timings.reconcile)
