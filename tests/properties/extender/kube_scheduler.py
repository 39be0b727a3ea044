"""A stand-in for kube-scheduler: its queues, its calls of an extender, and calls that it gives up."""

import asyncio
from contextlib import suppress
from typing import Any, Final, cast

from dradriver.errors import DraError
from dradriver.extender.protocol import BindArgs, FilterResult
from dradriver.extender.verbs import ExtenderVerbs
from dradriver.model.core.workload import Pod
from tests.properties.extender.api import Api, Extender

__all__ = ["KubeScheduler"]

_BACKOFF: Final = (1.0, 10.0)


class KubeScheduler:
    """Filters one pod at a time, and binds concurrently.

    Attributes:
        extender: the process that answers calls now.
        excluded: by pod, the nodes that other filters exclude.
        unschedulable: the pods that were refused, with the reasons of the nodes.
        impatience: the rate of calls of `bind` that are given up.
    """

    def __init__(self, api: Api) -> None:
        self.extender: Extender | None = None
        self.excluded: dict[str, set[str]] = {}
        self.unschedulable: dict[str, dict[str, str]] = {}
        self.impatience = 0.0
        self._api = api
        self._chance = api.chance
        self._active: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self._busy: set[str] = set()
        self._moved: set[str] = set()
        self._attempts: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        api.watchers.append(self._watch)

    @property
    def is_idle(self) -> bool:
        return not self._queued and not self._busy

    def find_nodes(self, key: str) -> list[str]:
        """Return the nodes that pass the other filters for a pod."""
        excluded = self.excluded.get(key, set())
        return [node.metadata.name for node in self._api.world.nodes if node.metadata.name not in excluded]

    async def __aenter__(self) -> "KubeScheduler":
        self._run(self._schedule_all())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _run(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _watch(self, kind: str, key: str, old: Any, new: Any) -> None:
        if kind == "nodes":
            for ref in list(self.unschedulable):
                self._move(ref)
        if kind != "pods":
            return
        if new is None or new.spec.node_name or new.finished:
            self.unschedulable.pop(key, None)
        elif old is None or old.metadata.annotations != new.metadata.annotations:
            self._move(key)

    def _move(self, key: str) -> None:
        """Try a pod again, as far as it was refused; during an attempt, remember the event."""
        if key in self._busy:
            self._moved.add(key)
        else:
            self._retry(key)

    def _retry(self, key: str) -> None:
        if key in self._queued:
            return
        self.unschedulable.pop(key, None)
        self._queued.add(key)
        number = self._attempts.get(key, 0)
        wait = min(_BACKOFF[1], _BACKOFF[0] * 2 ** (number - 1)) if number else 0.0
        asyncio.get_running_loop().call_later(wait, self._active.put_nowait, key)

    async def _schedule_all(self) -> None:
        while True:
            key = await self._active.get()
            self._queued.discard(key)
            pod = self._api.world.pods.get(key)
            if pod is None or pod.spec.node_name or pod.spec.scheduling_gates or key in self._busy:
                continue
            self._busy.add(key)
            self._moved.discard(key)
            self._attempts[key] = self._attempts.get(key, 0) + 1
            try:
                await self._schedule(key, pod)
            except (DraError, ConnectionError):
                self._end(key, retry=True)

    def _end(self, key: str, *, retry: bool = False) -> None:
        self._busy.discard(key)
        pod = self._api.world.pods.get(key)
        if pod is not None and not pod.spec.node_name and (retry or key in self._moved):
            self._retry(key)
        elif pod is None or pod.spec.node_name:
            self.unschedulable.pop(key, None)

    def _verbs(self) -> tuple[Extender, ExtenderVerbs]:
        if self.extender is None or not self.extender.is_alive:
            raise ConnectionError
        return self.extender, ExtenderVerbs(self.extender.cycle, lambda: "")

    async def _schedule(self, key: str, pod: Pod) -> None:
        nodes = self.find_nodes(key)
        if not nodes:
            self.unschedulable[key] = {"": "all nodes are excluded"}
            self._end(key)
            return
        result = await self._filter(pod, nodes)
        if not result.node_names:
            self.unschedulable[key] = {**result.failed_nodes, **result.failed_and_unresolvable_nodes}
            self._clear_nomination(key)
            self._end(key)
            return
        assert set(result.node_names) <= set(nodes)
        if self._chance.random() < self.impatience / 3:  # another plugin rejects the pod
            self._end(key, retry=True)
            return
        node = self._chance.choice([result.node_names[0], self._chance.choice(result.node_names)])
        self._run(self._bind(key, pod, node))

    async def _filter(self, pod: Pod, nodes: list[str]) -> FilterResult:
        """Ask about the nominated node alone; if it does not suit the pod, ask about all nodes."""
        nominated = pod.status.nominated_node_name
        result = FilterResult()
        for asked in ([nominated], nodes) if nominated in nodes else (nodes,):
            extender, verbs = self._verbs()
            call = extender.call(verbs.filter(pod, asked))
            result = cast(FilterResult, await self._give_up(call, self.impatience / 3))
            if result.node_names:
                return result
            resolvable, failed = result.failed_nodes, result.failed_and_unresolvable_nodes
            assert resolvable.keys() | failed.keys() == set(asked)
            assert resolvable.keys() <= {nominated}, "kube-scheduler must not evict pods there"
        return result

    def _clear_nomination(self, key: str) -> None:
        """End a nomination: kube-scheduler's preemption finds no pods to evict, as all have one priority."""
        pod = self._api.world.pods.get(key)
        if pod is not None and pod.status.nominated_node_name:
            self._api.world.change(pod.metadata.name, nominated_node_name="")
            self._api.commit()

    async def _give_up(self, call: Any, rate: float) -> Any:
        if self._chance.random() >= rate:
            return await call
        try:
            return await asyncio.wait_for(call, self._chance.choice([0, 0.0005, 0.05, 0.2, 1.0]))
        except TimeoutError:
            raise ConnectionError from None

    async def _bind(self, key: str, pod: Pod, node: str) -> None:
        meta = pod.metadata
        args = BindArgs(pod_name=meta.name, pod_namespace=meta.namespace, pod_uid=meta.uid, node=node)
        try:
            extender, verbs = self._verbs()
            if self._chance.random() < self.impatience / 3:  # the answer of a first call is lost
                self._run(self._ignore(self._give_up(extender.call(verbs.bind(args)), 1.0)))
            if (
                self._chance.random() < self.impatience / 3
            ):  # the server does not notice that this call is given up
                self._run(self._ignore(extender.call(verbs.bind(args))))
                raise ConnectionError  # noqa: TRY301 - as in the other cases
            await self._give_up(extender.call(verbs.bind(args)), self.impatience)
        except (DraError, ConnectionError):
            self._end(key, retry=True)
            return
        current = self._api.world.pods.get(key)
        assert current is None or current.metadata.uid != meta.uid or current.spec.node_name == node
        self._end(key)

    async def _ignore(self, call: Any) -> None:
        with suppress(DraError, ConnectionError):
            await call
