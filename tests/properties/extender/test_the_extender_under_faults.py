"""kube-scheduler and an extender on a faulty API server, with random events and kills.

At each change, no two claims have one device, and each running pod has all its claims. When all is quiet, each
pod is bound or refused with a reason, no refused pod would fit, and only claims of running pods are allocated.
That includes pods for which the extender is not called any more, because kube-scheduler's other filters
exclude all nodes.
The seed of a failure is printed. SEED in the environment is the first seed, and KILLS, which `make faults`
sets, adds seeds.
"""

import asyncio
import os
import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from dradriver.control.claims.ownership import claim_step, pod_step
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import Plan
from dradriver.model.resource.device import Device
from dradriver.testing import builders
from tests.properties.extender.api import Api, Extender, pod_of_profile
from tests.properties.extender.kube_scheduler import KubeScheduler
from tests.properties.extender.virtual_time import run
from tests.unit.control.world import ATTACHED, FAILED, World, cluster, slow_device

FIRST_SEED = int(os.environ.get("SEED") or 0)
SEEDS = range(FIRST_SEED, FIRST_SEED + max(30, int(os.environ.get("KILLS", "0")) * 2))
CHUNKS = 4
EVENTS = 40
QUIET = 120.0


class RandomRun:
    """One run of random events."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = create_world()
        self.api = Api(self.world, self.chance)
        self.scheduler = KubeScheduler(self.api)
        self.extender = Extender(self.api)
        self.pods = 0

    async def execute(self) -> None:
        async with self.scheduler:
            await self.restart()
            self.api.fault_rate = self.chance.choice([0.0, 0.05, 0.3])
            self.scheduler.impatience = self.chance.choice([0.0, 0.2, 0.6])
            for _ in range(EVENTS):
                await self.event()
                await asyncio.sleep(self.chance.choice([0, 0.001, 0.05, 0.5, 5.0]))
            await self.settle()
            self.check()
            await self.extender.kill()

    async def restart(self) -> None:
        """Kill the extender, and start another one, maybe later."""
        await self.extender.kill()
        await asyncio.sleep(self.chance.choice([0, 0.5]))
        self.scheduler.extender = self.extender = Extender(self.api)
        await self.extender.start()

    async def event(self) -> None:
        kinds: list[Callable[[], object]] = [
            *[self.add_pod] * 6, *[self.control] * 5, self.end_pod, self.end_pod, self.change_slice,
            self.change_slice, self.change_node, self.delete_claim, self.set_condition, self.set_condition,
        ]  # fmt: skip
        if self.chance.random() < 0.1:
            await self.restart()
            return
        self.chance.choice(kinds)()
        self.api.commit()

    def add_pod(self) -> None:
        self.pods += 1
        name = f"pod-{self.pods}"
        shape = self.chance.choice(["claim", "claim", "template", "two", "shared", "none"])
        claims = {"claim": (f"c-{name}",), "two": (f"c-{name}",), "shared": ("shared",)}.get(shape, ())
        templates = ("template",) if shape in {"template", "two"} else ()
        for claim in claims:
            if claim != "shared":
                count = self.chance.choice([1, 1, 1, 2])
                self.world.add(builders.claim(builders.device_request(count=count), name=claim))
        pod = pod_of_profile(name, claims, templates)
        if self.chance.random() < 0.3:
            names = [node.metadata.name for node in self.world.nodes]
            self.scheduler.excluded[pod.ref] = set(self.chance.sample(names, min(2, len(names))))
        self.world.add(pod)

    def end_pod(self) -> None:
        if self.world.pods:
            ref = self.chance.choice(sorted(self.world.pods))
            if self.world.pods[ref].spec.node_name and self.chance.random() < 0.5:
                self.world.change(ref.partition("/")[2], phase="Succeeded")
            else:
                self.world.delete_pod(ref.partition("/")[2])

    def delete_claim(self) -> None:
        unused = [ref for ref, claim in self.world.claims.items() if not claim.status.reserved_for]
        if unused and self.chance.random() < 0.3:
            self.world.delete_claim(self.chance.choice(sorted(unused)))

    def change_slice(self) -> None:
        """Add or remove a pool with a device."""
        name = f"node-{self.chance.randint(1, 3)}"
        pool = f"more-{name}"
        kept = [each for each in self.world.slices if each.spec.pool.name != pool]
        if len(kept) == len(self.world.slices):
            makers: list[Callable[[str], Device]] = [builders.device, slow_device]
            make = self.chance.choice(makers)
            self.world.add(builders.slice_(make("extra"), node_name=name, pool=pool))
        elif not any(result.pool == pool for claim in self.world.claims.values() for result in claim.results):
            self.world.slices[:] = kept

    def change_node(self) -> None:
        names = [node.metadata.name for node in self.world.nodes]
        if "node-3" in names:
            self.world.nodes[:] = [node for node in self.world.nodes if node.metadata.name != "node-3"]
        else:
            self.world.add(builders.node("node-3"))

    def set_condition(self, rate: float = 0.2) -> None:
        """Set conditions of waiting claims, as their driver does."""
        for ref, claim in list(self.world.claims.items()):
            conditions = {kind for result in claim.results for kind in result.binding_conditions}
            true = {c.type for device in claim.status.devices for c in device.conditions if c.status == "True"}
            if conditions - true and FAILED not in true:
                self.world.set_condition(ref, FAILED if self.chance.random() < rate else ATTACHED)

    def control(self) -> bool:
        """Let the claim controller do what is to do."""
        before = len(self.world.writes)
        for ref in sorted(self.world.pods):
            if ref in self.world.pods:
                self.world.carry_out(pod_step(self.world.pods[ref], self.world.objects()))
        for ref in sorted(self.world.claims):
            if ref in self.world.claims:
                self.world.carry_out(claim_step(self.world.claims[ref], self.world.objects()))
        return len(self.world.writes) > before

    async def settle(self) -> None:
        """Wait without faults until nothing changes any more."""
        self.api.fault_rate = self.scheduler.impatience = 0.0
        self.world.now = self.world.now.replace(year=2026)
        quiet, version = 0.0, -1
        for _ in range(2000):
            while self.control():
                self.api.commit()
            self.set_condition(rate=0)
            self.api.commit()
            await asyncio.sleep(1.0)
            quiet = quiet + 1.0 if version == self.api.version and self.scheduler.is_idle else 0.0
            version = self.api.version
            if quiet >= QUIET:
                return
        raise AssertionError("the pods never come to rest")

    def check(self) -> None:
        """Check the laws of a quiet cluster."""
        held = [str(result.id) for claim in self.world.claims.values() for result in claim.results]
        assert len(held) == len(set(held)), f"a device has two claims: {held}"
        running = set()
        for ref, pod in self.world.pods.items():
            if pod.finished:
                continue
            if pod.spec.node_name:
                running.add(pod.metadata.uid)
                continue
            reasons = self.scheduler.unschedulable.get(ref)
            assert reasons, f"{ref} was neither bound nor refused"
            assert all(reasons.values()), f"{ref} was refused without a reason"
            nodes = self.scheduler.find_nodes(ref)
            verdict = schedule(pod, self.world.snapshot(nodes=nodes))
            assert not isinstance(verdict, Plan), f"{ref} would fit node {verdict.node}"
            assert ref not in self.extender.cycle._plans, f"{ref} keeps devices"
        for ref, claim in self.world.claims.items():
            users = {consumer.uid for consumer in claim.status.reserved_for}
            assert users <= running, f"{ref} is reserved for a pod that does not run"
            assert bool(users) == (claim.allocation is not None), f"{ref}: allocated iff it is in use"


def create_world() -> World:
    """Return three nodes with four devices, and a shared claim."""
    world = cluster(nodes=3, devices=1)
    world.add(builders.slice_(slow_device(), node_name="node-2", pool="slow"), builders.claim(name="shared"))
    world.slices[:] = [
        replace(each, metadata=replace(each.metadata, name=f"slice-{number}"))
        for number, each in enumerate(world.slices)
    ]
    return world


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_fault_loses_a_pod_or_a_device(chunk: int) -> None:
    for seed in SEEDS[chunk::CHUNKS]:
        try:
            run(RandomRun(seed).execute())
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
