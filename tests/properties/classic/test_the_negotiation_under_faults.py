"""The scheduler and two controllers negotiate about random pods, with failures and kills (KEP-3063).

When all is quiet, each pod is bound where all its claims are, or waits with a reason; no pod waits that could
run on a node; and the hardware holds exactly what the claims say. No node ever has more allocations than slots.
The seed of a failure is printed. SEED in the environment is the first seed. With KILLS, which `make faults`
sets, the runs go on until the controllers were killed so often; each run kills them about eight times.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dradriver.classic.controller import ClassicController
from dradriver.classic.metrics import ControllerMetrics
from dradriver.classic.reports import ControllerReports
from dradriver.cluster.apiserver import ApiServer, Fault
from dradriver.control.controllers import Controllers
from dradriver.control.runtime.caches import Caches
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import (
    CLAIMS,
    CLASSES,
    CONTROLLER_ALLOCATIONS,
    NODES,
    PODS,
    SCHEDULING_CONTEXTS,
    SLICES,
    TEMPLATES,
    Client,
    EventRecorder,
    PatchKind,
)
from dradriver.kube.definitions import install_definitions
from dradriver.kube.errors import ApiError
from dradriver.kube.http.request import Request
from dradriver.kube.resources import Resource
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.classic.controlled_claims import find_allocating_controller, resolve
from dradriver.model.classic.parameters import AllocationTime
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ClaimSpec, DeviceRequests, ResourceClaim
from dradriver.node.driver_calls import Calls
from dradriver.testing import builders
from tests.properties.classic.assignments import World, find_node
from tests.properties.classic.fabric import Fabric, controller_of
from tests.seeds import choose_seed
from tests.unit.control.world import template

KILLS = int(os.environ.get("KILLS", "0"))
FIRST_SEED = choose_seed()
SEEDS = range(FIRST_SEED, FIRST_SEED + max(2, KILLS // 4))
"""With KILLS, the last seeds are needed only if the first ones kill the controllers seldom."""
EVENTS = 25
QUIET = 1.5
"""Seconds without any write, after which the cluster counts as quiet."""
LONGEST_RETRY = 16.0
"""Seconds without any write, after which a task that failed five times in a row has tried again, too."""
REST = 40.0
"""Seconds within which the cluster must be quiet."""

NODE_NAMES = ("node-1", "node-2", "node-3")
CONTROLLERS = ("a.example.com", "b.example.com")


class KilledClient(Client):
    """The client of a process that can be killed: from then on, no request is sent and none is answered."""

    is_dead = False

    async def _send(self, resource: Resource, request: Request) -> bytes:
        if not self.is_dead:
            answer = await super()._send(resource, request)
            if not self.is_dead:
                return answer
        await asyncio.get_running_loop().create_future()
        raise AssertionError("unreachable: nobody sets the future")


class RandomRun:
    """One run of random events."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance = random.Random(seed)
        self.folder = folder
        self.server = ApiServer(folder / "api")
        self.fabrics = {
            name: Fabric(name, self.chance, {node: self.chance.choice([1, 1, 2]) for node in NODE_NAMES})
            for name in CONTROLLERS
        }
        for fabric in self.fabrics.values():
            fabric.refused = set(self.chance.sample(NODE_NAMES, self.chance.choice([0, 0, 1, 2])))
        self.pods = 0
        self.kills = 0
        self.overdrawn: set[str] = set()
        self.processes: dict[str, asyncio.Task[None]] = {}
        self.clients: dict[str, KilledClient] = {}

    async def execute(self) -> None:
        await self.server.start()
        await asyncio.to_thread(self.server.write_kubeconfig, self.folder / "kubeconfig")
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.server.stop)
            self.client = await stack.enter_async_context(await Client.connect(str(self.folder / "kubeconfig")))
            await self.create_objects()
            self.seen = await stack.enter_async_context(Caches(self.client))
            self.seen.claims.subscribe(self.count_allocations)
            stack.push_async_callback(self.kill_all)
            for name in ("scheduler", *CONTROLLERS):
                self.start(name)
            for fabric in self.fabrics.values():
                fabric.failure_rate = self.chance.choice([0.0, 0.05, 0.3])
            for _ in range(EVENTS):
                await self.event()
                await asyncio.sleep(self.chance.choice([0, 0, 0.01, 0.05, 0.2]))
            self.end_faults()
            await self.settle(QUIET)
            try:
                await self.check_laws()
            except AssertionError:
                await self.settle(LONGEST_RETRY)
                await self.check()

    async def create_objects(self) -> None:
        await install_definitions(self.client)
        for name in NODE_NAMES:
            await self.client.create(NODES, builders.node(name), into=dict)
            await self.client.create(SLICES, builders.slice_(builders.device(), node_name=name), into=dict)
        classes = [builders.controller_class(name, controller=name) for name in CONTROLLERS]
        for each in (builders.device_class(), *classes):
            await self.client.create(CLASSES, each, into=dict)
        for name in (*CONTROLLERS, builders.CLASS):
            requests = DeviceRequests(requests=[builders.device_request(name)])
            made = replace(
                template(),
                metadata=replace(template().metadata, name=f"of-{name}"),
                spec=replace(template().spec, spec=ClaimSpec(requests)),
            )
            await self.client.create(TEMPLATES, made, "default", into=dict)
        shared = builders.claim(builders.device_request(CONTROLLERS[0]), name="shared")
        await self.client.create(CLAIMS, shared, "default", into=dict)

    # --- processes -----------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Start the scheduler's process, or that of a controller."""
        work = self.run_scheduler() if name == "scheduler" else self.run_controller(name)
        self.processes[name] = asyncio.create_task(work, name=name)

    async def run_scheduler(self) -> None:
        settings = SchedulerSettings(pod_backoff=(0.05, 0.2))
        async with self.connect("scheduler") as client, Controllers(client, settings):
            await asyncio.get_running_loop().create_future()

    async def run_controller(self, name: str) -> None:
        async with self.connect(name) as client, EventRecorder(client, name) as recorder:
            driver = controller_of(self.fabrics[name])
            calls = Calls(driver)
            reports = ControllerReports(recorder, ControllerMetrics(name))
            await ClassicController(driver, client, lease="", calls=calls, reports=reports).run()

    @asynccontextmanager
    async def connect(self, name: str) -> AsyncIterator[KilledClient]:
        async with await KilledClient.connect(str(self.folder / "kubeconfig")) as client:
            self.clients[name] = client
            yield client

    async def kill(self, name: str) -> None:
        """End a process at once: nothing that it still does reaches the API server or the hardware."""
        if (client := self.clients.get(name)) is not None:
            client.is_dead = True
        process = self.processes.pop(name)
        process.cancel()
        await asyncio.wait({process}, timeout=10)
        with suppress(asyncio.CancelledError):
            process.result()

    async def kill_all(self) -> None:
        for name in list(self.processes):
            await self.kill(name)

    # --- events --------------------------------------------------------------------------------

    async def event(self) -> None:
        kinds: list[Callable[[], Coroutine[Any, Any, None]]] = [
            *[self.add_pod] * 6, *[self.end_pod] * 3, *[self.restart] * 8, self.fail,
            self.change_opinion, self.delete_claim, self.clear_allocation,
        ]  # fmt: skip
        with suppress(ApiError):  # the faults also hit these requests
            await self.chance.choice(kinds)()

    async def add_pod(self) -> None:
        self.pods += 1
        a, b = CONTROLLERS
        shapes: list[tuple[tuple[str, ...], bool, AllocationTime]] = [
            ((a,), False, "WaitForFirstConsumer"),
            ((a, b), False, "WaitForFirstConsumer"),
            ((a, a), False, "WaitForFirstConsumer"),
            ((b, builders.CLASS), False, "WaitForFirstConsumer"),
            ((a,), False, "Immediate"),
            ((b,), True, "WaitForFirstConsumer"),
        ]
        classes, shared, mode = self.chance.choice(shapes)
        names = []
        is_template = mode != "Immediate" and self.chance.random() < 0.5
        for number, class_name in enumerate(classes if not is_template else ()):
            names.append(f"pod-{self.pods}-{number}")
            configs = [builders.controller_claim(mode)] if class_name != builders.CLASS else []
            claim = builders.claim(builders.device_request(class_name), name=names[-1], configs=configs)
            await self.client.create(CLAIMS, claim, "default", into=dict)
        templates = [f"of-{each}" for each in classes] if is_template else []
        if shared:
            names.append("shared")
        pod = builders.pod(*names, name=f"pod-{self.pods}", templates=templates)
        await self.client.create(PODS, pod, "default", into=dict)

    async def end_pod(self) -> None:
        pods = list(self.seen.pods.items.values())
        if not pods:
            return
        pod = self.chance.choice(pods)
        if pod.spec.node_name and not pod.finished and self.chance.random() < 0.5:
            body = {"status": {"phase": "Succeeded"}}
            await self.client.patch(
                PODS, pod.metadata.name, "default", body, PatchKind.MERGE, into=dict, subresource="status"
            )
        else:
            await self.client.delete(PODS, pod.metadata.name, "default", grace_seconds=0)

    async def restart(self) -> None:
        name = self.chance.choice(["scheduler", *CONTROLLERS, *CONTROLLERS])
        await self.kill(name)
        self.kills += name != "scheduler"
        await asyncio.sleep(self.chance.choice([0, 0.1]))
        self.start(name)

    async def fail(self) -> None:
        """Let some requests fail."""
        faults = [
            Fault("patch", code=409, count=3),
            Fault("patch", code=500, count=3, applied=True),
            Fault("patch", drop=True, count=3, applied=True),
            Fault("create", code=429, retry_after=1, count=2),
            Fault("update", drop=True, count=2, applied=True),
            Fault("watch", code=410, count=3),
            Fault("delete", code=500, count=2),
        ]
        self.server.faults.add(self.chance.choice(faults))

    async def change_opinion(self) -> None:
        fabric = self.fabrics[self.chance.choice(CONTROLLERS)]
        fabric.refused = set(self.chance.sample(NODE_NAMES, self.chance.choice([0, 1, 2])))

    async def delete_claim(self) -> None:
        unused = [each for each in self.seen.claims.items.values() if not each.status.reserved_for]
        if unused and (name := self.chance.choice(unused).metadata.name) != "shared":
            await self.client.delete(CLAIMS, name, "default")

    async def clear_allocation(self) -> None:
        """Clear an allocation that no pod has reserved, as kube-scheduler's PostFilter does."""
        unused = [c for c in self.seen.claims.items.values() if c.allocation and not c.status.reserved_for]
        if unused:
            body = {"status": {"allocation": None}}
            name = self.chance.choice(unused).metadata.name
            await self.client.patch(
                CLAIMS, name, "default", body, PatchKind.MERGE, into=dict, subresource="status"
            )

    def count_allocations(self, *_: object) -> None:
        """Compare the allocations in the API with the slots; the hardware itself gives nothing twice."""
        used = Counter(
            (result.driver, claim.allocation.node_selector.only_node)
            for claim in self.seen.claims.items.values()
            if claim.allocation is not None and claim.allocation.node_selector is not None
            for result in claim.results
            if result.driver in self.fabrics
        )
        for (name, node), count in used.items():
            if count > self.fabrics[name].slots[node]:
                self.overdrawn.add(f"{name} on {node}")

    # --- laws ----------------------------------------------------------------------------------

    def end_faults(self) -> None:
        """Let no request and no call of a driver fail any more."""
        self.server.faults.clear()
        for fabric in self.fabrics.values():
            fabric.failure_rate = 0.0

    async def settle(self, quiet: float) -> None:
        """Wait until nothing was written for a number of seconds."""
        clock = asyncio.get_running_loop().time
        until = clock() + REST
        before, since = None, clock()
        while clock() < until:
            for name, process in list(self.processes.items()):
                if process.done():
                    process.result()
                    raise AssertionError(f"{name} has ended")
            state = await self.read_state()
            if state != before:
                before, since = state, clock()
            elif clock() - since > quiet:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"the cluster never comes to rest: {await self.describe()}")

    async def read_state(self) -> object:
        found = []
        for resource in (PODS, CLAIMS, SCHEDULING_CONTEXTS, CONTROLLER_ALLOCATIONS):
            listing = await self.client.list(resource, "default", into=dict)
            found += [(each["metadata"]["uid"], each["metadata"]["resourceVersion"]) for each in listing.items]
        return found, [sorted(fabric.held.items()) for fabric in self.fabrics.values()]

    async def read_world(self) -> World:
        pods = await self.client.list(PODS, "default", into=Pod)
        claims = await self.client.list(CLAIMS, "default", into=ResourceClaim)
        return World(
            {each.ref: each for each in pods.items},
            {each.ref: each for each in claims.items},
            list(self.seen.nodes.items.values()),
            self.seen.classes.items,
            self.fabrics,
            dict.fromkeys(NODE_NAMES, 1),
        )

    async def describe(self) -> str:
        world = await self.read_world()
        contexts = await self.client.list(SCHEDULING_CONTEXTS, "default", into=PodSchedulingContext)
        lines = [*world.pods.values(), *world.claims.values(), *contexts.items, *self.fabrics.values()]
        return "\n".join(map(str, lines))

    async def check(self) -> None:
        """Check the laws of a quiet cluster."""
        try:
            await self.check_laws()
        except AssertionError as error:
            error.add_note(await self.describe())
            raise

    async def check_laws(self) -> None:
        world = await self.read_world()
        contexts = await self.client.list(SCHEDULING_CONTEXTS, "default", into=PodSchedulingContext)
        records = await self.client.list(CONTROLLER_ALLOCATIONS, "default", into=ControllerAllocation)
        waiting = set()
        for ref, pod in world.pods.items():
            if pod.finished:
                continue
            if pod.spec.node_name:
                self.check_bound(world, pod)
                continue
            waiting.add(ref)
            reasons = [
                c.message for c in pod.status.conditions if (c.type, c.status) == ("PodScheduled", "False")
            ]
            assert reasons, f"{ref} waits without a reason"
            assert all(reasons), f"{ref} waits without a reason"
            node = find_node(world, pod)
            assert not node, f"{ref} would fit node {node}, but: {reasons[0]}"
        self.check_hardware(world)
        assert {each.ref for each in contexts.items} <= waiting
        held = {uid for fabric in self.fabrics.values() for uid in fabric.held}
        begun = {each.metadata.uid for each in world.claims.values() if is_immediate(world, each)}
        assert held <= {each.spec.claim_uid for each in records.items} <= held | begun

    def check_bound(self, world: World, pod: Pod) -> None:
        for wanted in pod.spec.resource_claims:
            claim = world.claims[f"{pod.metadata.namespace}/{pod.claim_name(wanted)}"]
            assert claim.allocation is not None, f"{pod.ref} runs without {claim.ref}"
            selector = claim.allocation.node_selector
            assert selector is None or selector.matches(pod.spec.node_name, {}), f"{claim.ref}: other node"
            assert pod.metadata.uid in {each.uid for each in claim.status.reserved_for}, (
                f"{claim.ref}: unreserved"
            )

    def check_hardware(self, world: World) -> None:
        assert not self.overdrawn, f"more allocations than slots: {self.overdrawn}"
        for fabric in self.fabrics.values():
            expected = {}
            for claim in world.claims.values():
                controlled = resolve(claim, world.classes)
                if controlled is None or controlled.controller != fabric.name:
                    continue
                is_begun = find_allocating_controller(claim) == fabric.name
                assert is_begun or claim.allocation is None, f"{claim.ref} is allocated without the finalizer"
                if claim.allocation is None and controlled.is_delayed:
                    assert not is_begun, f"{claim.ref} keeps the finalizer although nobody allocates it"
                if claim.allocation is not None and claim.allocation.node_selector is not None:
                    expected[claim.metadata.uid] = claim.allocation.node_selector.only_node
            assert fabric.held == expected, f"{fabric.name} holds what the claims say"


def is_immediate(world: World, claim: ResourceClaim) -> bool:
    controlled = resolve(claim, world.classes)
    return controlled is not None and not controlled.is_delayed


@pytest.mark.timeout(60 + len(SEEDS) * 25)
async def test_no_pod_waits_for_a_node_that_would_do_and_nothing_leaks(tmp_path: Path) -> None:
    kills = 0
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        run = RandomRun(seed, folder)
        try:
            await run.execute()
        except BaseException as error:
            error.add_note(f"SEED={seed}")
            raise
        kills += run.kills
        if KILLS and kills >= KILLS:
            break
    assert kills >= KILLS, f"SEED={FIRST_SEED}: the controllers were killed only {kills} times"
