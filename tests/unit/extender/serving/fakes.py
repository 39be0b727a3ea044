"""Verbs and a process whose answers the test decides."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from dradriver.extender.protocol import BindArgs, FilterResult, HostPriority, MetaVictims, PodState
from dradriver.extender.serving.metrics import ExtenderMetrics
from dradriver.extender.serving.server import ExtenderServer
from dradriver.extender.serving.verb_calls import VerbCalls
from dradriver.model.core.workload import Pod

POD = {"metadata": {"name": "pod", "namespace": "default", "uid": "u"}, "spec": {"containers": [{"name": "c"}]}}
FILTER = {"Pod": POD, "Nodes": None, "NodeNames": ["node-1", "node-2"]}
PREEMPT = {
    "Pod": POD,
    "NodeNameToVictims": None,
    "NodeNameToMetaVictims": {"node-1": {"Pods": [{"UID": "v"}], "NumPDBViolations": 1}},
}
BIND = {"PodName": "pod", "PodNamespace": "default", "PodUID": "u", "Node": "node-1"}


class FakeVerbs:
    """Accepts the first node; `error` is raised by each verb, and `held` keeps `bind` waiting.

    Attributes:
        bound: the arguments of the calls of `bind` that ended.
        binding: set when a call of `bind` has begun.
        canceled: set when a call of `bind` was canceled.
    """

    def __init__(self) -> None:
        self.notice = self.second_allocator = ""
        self.error: Exception | None = None
        self.held: asyncio.Event | None = None
        self.bound: list[BindArgs] = []
        self.binding, self.canceled = asyncio.Event(), asyncio.Event()

    def explain(self, pod: str) -> PodState:
        self._check()
        return PodState(pod=pod, state="refused", message="no node suits it: cannot allocate all claims")

    async def filter(self, pod: Pod, nodes: Sequence[str]) -> FilterResult:
        self._check()
        failed = dict.fromkeys(nodes[1:], f"no device for {pod.ref}")
        return FilterResult(node_names=[nodes[0]], failed_and_unresolvable_nodes=failed)

    async def prioritize(self, pod: Pod, nodes: Sequence[str]) -> Sequence[HostPriority]:
        self._check()
        return [HostPriority(host=name, score=10 - rank) for rank, name in enumerate(nodes)]

    async def preempt(self, pod: Pod, victims: Mapping[str, MetaVictims]) -> Mapping[str, MetaVictims]:
        self._check()
        return victims

    async def bind(self, args: BindArgs) -> None:
        self._check()
        self.binding.set()
        if self.held is not None:
            try:
                await self.held.wait()
            except asyncio.CancelledError:
                self.canceled.set()
                raise
        self.bound.append(args)

    def _check(self) -> None:
        if self.error is not None:
            raise self.error


class FakeProcess:
    """A process that leads from the start."""

    def __init__(self, verbs: FakeVerbs) -> None:
        self.readiness = self.standby_readiness = self.problem = ""
        self.metrics = ExtenderMetrics()
        self.calls = VerbCalls(lambda: self.readiness)
        self.calls.open(verbs)

    async def liveness(self) -> str:
        return self.problem


class KubeScheduler:
    """Sends requests as kube-scheduler does."""

    def __init__(self, session: aiohttp.ClientSession, url: str, **options: Any) -> None:
        self.session, self.url, self.options = session, url, options

    async def post(self, verb: str, body: object) -> tuple[int, Any]:
        """Return the status, and the decoded answer or the text."""
        content = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        async with self.session.post(f"{self.url}/{verb}", data=content, **self.options) as response:
            is_json = response.content_type == "application/json"
            return response.status, await (response.json() if is_json else response.text())

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(f"{self.url}{path}", **self.options) as response:
            return response.status, await response.text()


@asynccontextmanager
async def serving(process: Any, **options: Any) -> AsyncIterator[tuple[ExtenderServer, KubeScheduler]]:
    """Serve a process over plain HTTP."""
    server = ExtenderServer(process, host="127.0.0.1", **options)
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield server, KubeScheduler(session, f"http://127.0.0.1:{server.port}")
    finally:
        await server.stop()
