"""A cluster with two nodes on an emulated fabric, and every process of it to be killed."""

import asyncio
import itertools
import json
import random
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dradriver.cli.embedded_cluster import driver_processes
from dradriver.cluster import EmbeddedCluster
from dradriver.conditions.attachment_diff import allocated_attachments
from dradriver.kube import CLAIMS, CLASSES, CONFIG_MAPS, LEASES, PODS, TEMPLATES, Cache, Client, NotFound
from dradriver.model.core.config_map import ConfigMap
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from dradriver_fabric_cxl.names import DRIVER
from dradriver_fabric_cxl.simulation import claim_simulated_host, memory_file
from tests.drivers.fabric_cxl.emulator_process import ManagerFiles
from tests.faults.fabric_cxl.manager import Manager, pick_failure
from tests.faults.fabric_cxl.programs import Forks, Program, run_forks
from tests.faults.fabric_cxl.slots import Slots
from tests.faults.fabric_cxl.uses import Uses, to_entry
from tests.unit.control.world import template

NODES: Final = {"node-1": "host-1", "node-2": "host-2"}
"""The manager's host of each node."""
PODS_AT_ONCE: Final = 6
QUIET_SECONDS: Final = 60.0
CLASS: Final = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": DRIVER},
    "spec": {"selectors": [{"cel": {"expression": f"device.attributes['{DRIVER}'].type == 'memory'"}}]},
}
MODULES: Final = (
    "dradriver.cli",
    "dradriver.runner.binding",
    "dradriver.runner.binding_node",
    "dradriver.kube.http.transport",
    "dradriver_fabric_cxl.emulator",
    "dradriver_fabric_cxl.fabric.redfish",
    "dradriver_fabric_cxl.memory.simulator",
    "dradriver_fabric_cxl.node",
    "dradriver_fabric_cxl.pools",
)
"""What the programs import."""


@dataclass
class FabricCluster:
    """The cluster, its programs, and the pods.

    Attributes:
        chance: decides everything that is random.
        client: the API server.
        manager: the emulated manager.
        slots: the hardware.
        uses: who uses what.
        pods: all pods.
        emulator, pools: the program of the manager, and of the driver of the pools.
        nodes: the program of the driver on each node.
    """

    chance: random.Random
    client: Client
    manager: Manager
    slots: Slots
    uses: Uses
    pods: Cache[Pod]
    emulator: Program
    pools: Program
    nodes: dict[str, Program]
    _names: "itertools.count[int]" = field(default_factory=itertools.count)

    @property
    def programs(self) -> list[Program]:
        return [self.emulator, self.pools, *self.nodes.values()]

    async def kill_each(self) -> None:
        """Kill the manager, the driver of the pools and the driver of one node, each at a random moment."""
        node = self.chance.choice(list(self.nodes))
        victims = [self.emulator, self.pools, self.nodes[node]]
        for victim in self.chance.sample(victims, len(victims)):
            await asyncio.sleep(self.chance.uniform(0, self.chance.choice((0.05, 0.2, 0.5, 1.5))))
            await victim.kill()
            if victim is self.pools:
                # Its successor need not wait for the end of the Lease: this process has surely ended.
                with suppress(NotFound):
                    await self.client.delete(LEASES, DRIVER, "default")
            elif victim is self.emulator:
                answers = self.chance.choice(("task", "task", "created", "ok", "no-content"))
                victim.arguments = self.manager.arguments(self.slots.hook, answers)
            elif self.chance.random() < 0.25:
                # Nobody can let go of the pod's memory now. The others go on.
                await self._delete_running(node, force=True)
                await asyncio.sleep(self.chance.uniform(0, 3))
            await victim.start()
            self.raise_for_violations()

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Let pods come and go, and the manager fail."""
        loads = [asyncio.create_task(self._change_pods()), asyncio.create_task(self._fail())]
        try:
            yield
        finally:
            for each in loads:
                each.cancel()
            ended = await asyncio.gather(*loads, return_exceptions=True)
        failed = [each for each in ended if isinstance(each, Exception)]
        assert not failed, failed

    async def settle(self) -> None:
        """End all failures, and wait until the manager has what claims are allocated."""
        for program in self.programs:
            await program.start()
        while not await self.manager.ask("DELETE", "faults"):
            await asyncio.sleep(0.02)
        await self._until_settled()

    async def end(self) -> None:
        """Delete all pods, and wait until nothing is left."""
        for pod in list(self.pods.items.values()):
            await self._delete(pod, force=False)
        await self._until_settled(empty=True)

    def raise_for_violations(self) -> None:
        """Fail if the hardware has seen what must not happen."""
        assert not self.slots.violations, self._explain("\n".join(self.slots.violations))
        exits = [each.log.name for each in self.programs if each.exits]
        assert not exits, self._explain(f"ended without a kill: {exits}")

    def print_counts(self) -> None:
        """Print what has happened."""
        for each in self.programs:
            print(f"{each.log.name}: {each.kills} kills, {each.exits} exits")
        print(f"{self.slots.connections} connections, {next(self._names)} pods")

    async def _until_settled(self, *, empty: bool = False) -> None:
        deadline = time.monotonic() + QUIET_SECONDS
        while problem := self._compare(empty=empty):
            self.raise_for_violations()
            assert time.monotonic() < deadline, self._explain(problem)
            await asyncio.sleep(0.05)
            for program in self.programs:
                await program.start()
        self.raise_for_violations()

    def _compare(self, *, empty: bool) -> str:
        """Return how claims, manager, hosts and notes differ."""
        wanted = sorted(
            (to_entry(chosen), NODES[chosen.node])
            for claim in self.uses.claims.items.values()
            for chosen in allocated_attachments(claim, DRIVER)
        )
        chunks = self.manager.read_chunks()
        if strange := [each for each in chunks if each.identity is None]:
            return f"the manager has {strange}, which are of no claim"
        found = sorted(
            (to_entry(each.identity), host)
            for each in chunks
            if each.identity is not None
            for host in each.hosts or ("no host",)
        )
        if found != wanted:
            return f"the manager has {found}, and allocated are {wanted}"
        plugged = self.slots.list_plugged()
        if sorted(plugged) != sorted(host for _, host in wanted):
            return f"memory is plugged into {plugged}, and allocated are {wanted}"
        if forgotten := self.uses.list_named() - {entry for entry, _ in wanted}:
            return f"nodes name {forgotten}, which are not allocated"
        pods = self.pods.items.values()
        if waiting := [each.metadata.name for each in pods if each.spec.node_name and not is_running(each)]:
            return f"{waiting} do not run"
        return f"there are {wanted} and {list(self.pods.items)}" if empty and (wanted or pods) else ""

    async def _change_pods(self) -> None:
        """Create pods, and delete as many of them: most when they run, some before, half by force."""
        while True:
            pods = list(self.pods.items.values())
            if len(pods) < PODS_AT_ONCE:
                pod = builders.pod(name=f"pod-{next(self._names)}", templates=["template"])
                await self.client.create(PODS, pod, "default", into=bytes)
                await asyncio.sleep(self.chance.uniform(0, 0.2))
                continue
            await asyncio.sleep(self.chance.uniform(0, 1))
            if self.chance.random() < 0.2:
                await self._delete(self.chance.choice(pods), force=False)
            else:
                await self._delete_running(self.chance.choice(list(NODES)), force=self.chance.random() < 0.5)

    async def _delete_running(self, node: str, *, force: bool) -> None:
        running = [each for each in self.pods.items.values() if each.status.phase == "Running"]
        if found := [each for each in running if each.spec.node_name == node]:
            await self._delete(self.chance.choice(found), force=force)

    async def _delete(self, pod: Pod, *, force: bool) -> None:
        with suppress(NotFound):
            grace = 0 if force else None
            await self.client.delete(PODS, pod.metadata.name, "default", grace_seconds=grace)

    async def _fail(self) -> None:
        while True:
            await asyncio.sleep(self.chance.uniform(0, 1))
            if self.chance.random() < 0.2:
                await self.manager.ask("DELETE", "sessions")
            else:
                await self.manager.ask("POST", "faults", pick_failure(self.chance))

    def _explain(self, problem: str) -> str:
        pods = [
            f"{each.metadata.name} on {each.spec.node_name or 'no node'}: {each.status.phase}, "
            f"deleted {each.metadata.deletion_timestamp}"
            for each in self.pods.items.values()
        ]
        logs = "\n\n".join(f"{each.log}:\n{each.read_log()}" for each in self.programs)
        return "\n".join((problem, *pods, logs))


@asynccontextmanager
async def run_fabric_cluster(chance: random.Random) -> AsyncIterator[FabricCluster]:
    """Run the cluster and all programs."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dra-")))
        manager = Manager(ManagerFiles(folder / "manager"))
        memory = {
            host: memory_file(folder / "hosts", claim_simulated_host(folder / "hosts", node).id)
            for node, host in NODES.items()
        }
        forks = await stack.enter_async_context(run_forks(*MODULES))
        cluster = EmbeddedCluster(folder / "cluster", nodes=list(NODES), runtime="process")
        await stack.enter_async_context(cluster)
        client = cluster.client()
        pods, claims = Cache(client, PODS, Pod), Cache(client, CLAIMS, ResourceClaim)
        notes = Cache(client, CONFIG_MAPS, ConfigMap, "default")
        for cache in (pods, claims, notes):
            await stack.enter_async_context(cache)
            await cache.wait_synced()
        uses = Uses(client, claims, notes)
        slots = Slots(folder, manager.state, memory, uses)
        await stack.enter_async_context(slots.serve())
        arguments = manager.arguments(slots.hook, "task")
        emulator = Program(forks, "dradriver_fabric_cxl.emulator", arguments, folder / "emulator.log")
        pools, *nodes = make_drivers(cluster, forks, folder, manager)
        await client.create(CLASSES, CLASS, into=bytes)
        claim = builders.claim(builders.device_request(DRIVER))
        await client.create(TEMPLATES, template(claim=claim), "default", into=bytes)
        made = FabricCluster(
            chance, client, manager, slots, uses, pods, emulator, pools, dict(zip(NODES, nodes, strict=True))
        )
        try:
            yield made
        finally:
            for program in made.programs:
                await program.kill()


def make_drivers(cluster: EmbeddedCluster, forks: Forks, folder: Path, manager: Manager) -> list[Program]:
    """Return the programs of the driver: that of the pools, and those of the nodes."""
    hosts = {host: node for node, host in NODES.items()}
    settings = {"manager": manager.settings(), "hosts": hosts, "sizes": ["1Gi"], "attachSeconds": 8}
    environment = {
        "FABRIC_CXL_POOLS_SETTINGS": json.dumps(settings),
        "FABRIC_CXL_SETTINGS": json.dumps({"simulator": {"folder": str(folder / "hosts")}}),
    }
    return [
        Program(
            forks,
            "dradriver.cli",
            [*each.command[3:], f"--simulate={'always' if each.node else 'never'}"],
            folder / f"{each.node or 'pools'}.log",
            environment,
        )
        for each in driver_processes(cluster, ["fabric-cxl-pools", "fabric-cxl"])
    ]


def is_running(pod: Pod) -> bool:
    """Return whether the pod runs, or must not run any more."""
    return pod.status.phase == "Running" or pod.metadata.deletion_timestamp is not None
