"""An extender on an API server, and a stand-in for kube-scheduler that calls its verbs."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from datetime import datetime

import pytest
from msgspec.structs import replace

from dradriver.control.runtime.actions import Action
from dradriver.control.runtime.executor import NUDGE_ANNOTATION
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.settings import SchedulerSettings
from dradriver.extender.bind_calls import BindError
from dradriver.extender.cycle import ExtenderCycle
from dradriver.extender.protocol import BindArgs, FilterResult
from dradriver.extender.running import run_verbs
from dradriver.extender.verbs import ExtenderVerbs
from dradriver.kube import CLAIMS, PODS, SLICES, PatchKind
from dradriver.kube import NODES as NODE_OBJECTS
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.testing import builders
from tests.caches import until_current
from tests.unit.control.conftest import Lab, lab

__all__ = ["lab"]

NODES = ("node-1", "node-2")
PROFILE = "dradriver"


class Pause:
    """Holds the extender before or after its next write of one kind, until `go` is set."""

    def __init__(self, cycle: ExtenderCycle, kind: type[Action], *, after: bool = False) -> None:
        self.reached = asyncio.Event()
        self.go = asyncio.Event()
        self._cycle = cycle
        self._kind = kind
        self._after = after
        self._execute = cycle._execute
        cycle._execute = self._hold

    async def _hold(self, action: Action) -> bool:
        if not isinstance(action, self._kind):
            return await self._execute(action)
        self._cycle._execute = self._execute
        done = await self._execute(action) if self._after else False
        self.reached.set()
        await self.go.wait()
        return done if self._after else await self._execute(action)


class Caller:
    """Calls the verbs as kube-scheduler does. Its nodes are those that passed kube-scheduler's filters."""

    def __init__(self, lab: Lab, settings: SchedulerSettings) -> None:
        self.lab = lab
        self.stack = AsyncExitStack()
        self.installed: datetime | None = None
        self._settings = settings

    async def start(self) -> None:
        """Start an extender, whose plans do not expire by themselves, however slow the machine is."""
        self.metrics = ControlMetrics(PROFILE)
        running = run_verbs(self.lab.client, self._settings, self.metrics, [PROFILE], self.installed)
        self.verbs: ExtenderVerbs = await self.stack.enter_async_context(running)
        now = time.monotonic()
        self.cycle._nominations._clock = lambda: now

    async def restart(self) -> None:
        """End the extender, which loses its memory, and start another."""
        await self.stack.aclose()
        await self.start()

    @property
    def cycle(self) -> ExtenderCycle:
        return self.verbs._cycle

    async def add_node(self, name: str, *devices: Device) -> None:
        await self.lab.client.create(NODE_OBJECTS, builders.node(name), into=dict)
        if devices:
            await self.lab.client.create(SLICES, builders.slice_(*devices, node_name=name), into=dict)
        await self.until_known(name)

    async def until_known(self, node: str) -> None:
        """Wait until the extender knows a node."""
        caches, changed = self.cycle._caches, asyncio.Event()
        stop = caches.nodes.subscribe(lambda *_: changed.set())
        while node not in caches.nodes.items:
            changed.clear()
            await changed.wait()
        stop()

    async def pod(self, name: str, *, scheduler: str = PROFILE) -> Pod:
        """Create a pod with a claim of its own, `claim-NAME`, for one device."""
        claim = builders.claim(builders.device_request(), name=f"claim-{name}")
        await self.lab.client.create(CLAIMS, claim, "default", into=dict)
        return await self.pod_of(name, f"claim-{name}", scheduler=scheduler)

    async def pod_of(self, name: str, *claims: str, scheduler: str = PROFILE) -> Pod:
        """Create a pod that uses existing claims, and wait until the extender knows it and them."""
        pod = builders.pod(*claims, name=name)
        return await self.add(replace(pod, spec=replace(pod.spec, scheduler_name=scheduler)))

    async def add(self, pod: Pod) -> Pod:
        """Create a pod, wait until the extender knows it and its claims, and return it as it is stored."""
        await self.lab.pods(pod)
        await self.until_current()
        return self.lab.seen.pods.items[pod.ref]

    async def until_current(self) -> None:
        """Wait until the extender and the lab see the pods and claims as they are now."""
        for caches in (self.lab.seen, self.cycle._caches):
            await until_current(self.lab.client, caches.pods, caches.claims)

    async def filter(self, pod: Pod, nodes: Sequence[str] = NODES) -> FilterResult:
        return await self.verbs.filter(pod, nodes)

    async def bind(self, pod: Pod, node: str) -> None:
        """Bind a pod, and wait until what was written is seen."""
        meta = pod.metadata
        await self.verbs.bind(
            BindArgs(pod_name=meta.name, pod_namespace=meta.namespace, pod_uid=meta.uid, node=node)
        )
        await self.until_current()

    async def place(self, pod: Pod, nodes: Sequence[str] = NODES) -> str:
        """Filter and bind a pod, and return its node."""
        nodes = (await self.filter(pod, nodes)).node_names or []
        assert nodes
        await self.bind(pod, nodes[0])
        return nodes[0]

    async def place_again(self, pod: Pod) -> str:
        """Place a pod as soon as the devices of its last attempt are released."""
        while True:
            try:
                return await self.place(pod)
            except BindError:
                await asyncio.sleep(0.001)

    async def until_free(self) -> None:
        """Wait until no claim has devices."""
        await self.lab.until(lambda _, claims: not any(claim.allocation for claim in claims.values()))

    async def delete_pod(self, pod: Pod) -> None:
        """Delete a pod, and wait until the extender has seen it."""
        await self.lab.client.delete(PODS, pod.metadata.name, "default", grace_seconds=0)
        while pod.ref in self.cycle._caches.pods.items:
            await asyncio.sleep(0.001)

    async def set_condition(self, claim: ResourceClaim, *kinds: str) -> None:
        """Set conditions of the devices of a claim to True, as the driver's controller does."""
        conditions = [
            {"type": kind, "status": "True", "reason": "Test", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for kind in kinds
        ]
        devices = [
            {"driver": each.driver, "pool": each.pool, "device": each.device, "conditions": conditions}
            for each in claim.results
        ]
        await self.lab.client.patch(
            *(CLAIMS, claim.metadata.name, "default", {"status": {"devices": devices}}, PatchKind.MERGE),
            into=dict,
            subresource="status",
        )

    async def until_nudged(self, *names: str) -> None:
        await self.lab.until(lambda pods, _: set(names) <= set(nudged(pods.values())))


def nudged(pods: object) -> list[str]:
    """Return the names of the pods that were nudged."""
    return [pod.metadata.name for pod in pods if NUDGE_ANNOTATION in pod.metadata.annotations]  # type: ignore[attr-defined]


@pytest.fixture
def settings() -> SchedulerSettings:
    """The settings of the extender; tests override this fixture."""
    return SchedulerSettings(pod_backoff=(0.01, 0.02))


@pytest.fixture
async def caller(lab: Lab, settings: SchedulerSettings) -> AsyncIterator[Caller]:
    """An extender on the lab's API server: two nodes with two devices each."""
    caller = Caller(lab, settings)
    async with caller.stack:
        await caller.start()
        yield caller
