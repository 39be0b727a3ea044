"""Processes of `dradriver scheduler run`, and a stand-in for kube-scheduler that calls them."""

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import aiohttp
from msgspec.structs import replace

from dradriver.cluster.apiserver import ApiServer
from dradriver.control.claims.controller import ClaimController
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.kube import CLAIMS, CLASSES, NODES, PODS, SLICES, TEMPLATES, Client, EventRecorder
from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import decode, encode
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.ports import reserve_port
from tests.seeds import choose_seed
from tests.unit.control.world import template

__all__ = ["LEASE_SECONDS", "SECONDS", "SEED", "Stage", "open_stage"]

SEED: Final = choose_seed()
PROFILE: Final = "dradriver"
LEASE_SECONDS: Final = 10
SECONDS: Final = 40.0
NODE_NAMES: Final = ("node-1", "node-2")


class Stage:
    """A cluster, the extender's processes, and a stand-in for kube-scheduler.

    Attributes:
        processes: the extender's processes by port.
        restarts: the number of processes that have ended, and were started again.
        twice: the devices that were held by two claims.
        kubeconfig: the configuration of the extender's processes.
    """

    def __init__(self, server: ApiServer, client: Client, caches: Caches, folder: Path) -> None:
        self.server = server
        self.client = client
        self.caches = caches
        self.random = random.Random(SEED)
        self.processes: dict[int, asyncio.subprocess.Process] = {}
        self.restarts = 0
        self.twice: list[str] = []
        self.kubeconfig = folder / "kubeconfig"
        self._folder = folder
        self._names = 0
        self._restarting = asyncio.Lock()
        self._calls: dict[str, asyncio.Task[None]] = {}
        caches.claims.subscribe(lambda *_: self._check())

    def _check(self) -> None:
        held = [str(result.id) for claim in self.caches.claims.items.values() for result in claim.results]
        self.twice += {device for device in held if held.count(device) > 1}

    async def start(self, port: int) -> None:
        """Start a process of the extender."""
        with (self._folder / f"log-{port}").open("ab") as log:
            self.processes[port] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "dradriver.cli", "scheduler", "run"),
                *("--kubeconfig", str(self.kubeconfig), "--port", str(port)),
                *("--lease-namespace", "default", "--lease-seconds", str(LEASE_SECONDS)),
                stdout=log,
                stderr=log,
            )

    async def post(self, port: int, verb: str, body: object, seconds: float) -> Any:
        timeout = aiohttp.ClientTimeout(total=seconds)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(f"http://127.0.0.1:{port}/{verb}", data=encode(body)) as answer,
        ):
            return decode(dict[str, Any], await answer.read())

    async def schedule(self) -> None:
        """Call the extender for each pod without a node, again and again."""
        while True:
            for pod in list(self.caches.pods.items.values()):
                if not pod.spec.node_name and pod.ref not in self._calls:
                    await self._filter(pod)
            await asyncio.sleep(0.05)

    async def _filter(self, pod: Pod) -> None:
        body = {"Pod": pod, "NodeNames": list(NODE_NAMES)}
        for port in list(self.processes):
            with suppress(aiohttp.ClientError, TimeoutError):
                result = await self.post(port, "filter", body, 1.0)
                if nodes := result.get("NodeNames"):
                    call = asyncio.create_task(self._bind(port, pod, self.random.choice(nodes)))
                    self._calls[pod.ref] = call
                    call.add_done_callback(lambda _: self._calls.pop(pod.ref))
                    return

    async def _bind(self, port: int, pod: Pod, node: str) -> None:
        meta = pod.metadata
        body = {"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node}
        with suppress(aiohttp.ClientError, TimeoutError):
            await self.post(port, "bind", body, self.random.choice([0.01, 0.1, 5.0, 5.0]))

    async def make_pods(self) -> None:
        for _ in range(self.random.randrange(2, 5)):
            self._names += 1
            made = builders.pod(name=f"pod-{self._names}", templates=["template"])
            spec = replace(made.spec, scheduler_name=PROFILE)
            created = await self.client.create(PODS, replace(made, spec=spec), "default", into=Pod)
            self.caches.pods.apply_written(created)

    async def end_pods(self, most: int) -> None:
        stored = await self.client.list(PODS, "default", into=Pod)
        names = [pod.metadata.name for pod in stored.items]
        for name in self.random.sample(names, min(most, len(names))):
            await self.client.delete(PODS, name, "default", grace_seconds=0)

    async def find_leader(self) -> int:
        """Return the port of the process that schedules."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS):
                while True:
                    await self.restart_ended()
                    for port in self.processes:
                        if await self._is_ready(port):
                            return port
                    await asyncio.sleep(0.1)
        logs = "\n".join(log.read_text()[-2000:] for log in self._folder.glob("log-*"))
        raise AssertionError(f"SEED={SEED}: no process schedules:\n{logs}")

    @staticmethod
    async def _is_ready(port: int) -> bool:
        timeout = aiohttp.ClientTimeout(total=1.0)
        with suppress(aiohttp.ClientError, TimeoutError):
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(f"http://127.0.0.1:{port}/readyz") as answer,
            ):
                return answer.ok
        return False

    async def restart_ended(self) -> None:
        """Start each process again that ended because it did not renew its Lease in time."""
        async with self._restarting:
            for port, process in list(self.processes.items()):
                if process.returncode is not None:
                    self.restarts += 1
                    await self.start(port)

    async def check_claims(self) -> None:
        """Check that the only claim of each pod with a node is allocated."""
        bound = [pod for pod in self.caches.pods.items.values() if pod.spec.node_name]
        # Not of the cache, whose watch of the claims may be behind that of the pods.
        stored = await self.client.list(CLAIMS, "default", into=ResourceClaim)
        for pod in bound:
            claims = [
                claim
                for claim in stored.items
                if any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)
            ]
            assert [claim.allocation is not None for claim in claims] == [True], pod.ref

    async def until_nothing_is_left(self) -> None:
        """Wait until all pods are gone, and the controller has removed their claims."""
        await self.until(lambda: not self.caches.pods.items and not self.caches.claims.items)
        async with asyncio.timeout(SECONDS):
            while (await self.client.list(CLAIMS, "default", into=ResourceClaim)).items:
                await asyncio.sleep(0.02)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Start two processes, and call them until the end of the context."""
        for _ in range(2):
            await self.start(reserve_port())
        scheduling = asyncio.create_task(self.schedule())
        yield
        scheduling.cancel()
        await asyncio.gather(scheduling, *self._calls.values(), return_exceptions=True)

    async def until(self, done: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                while not done():
                    await self.restart_ended()
                    await asyncio.sleep(0.02)
        except TimeoutError:
            left = [*self.caches.pods.items.values(), *self.caches.claims.items.values()]
            raise AssertionError(f"SEED={SEED}: {left}") from None

    async def end(self) -> None:
        for process in self.processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()


@asynccontextmanager
async def open_stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Start an API server with two nodes of two devices each, and the claim controller."""
    print(f"SEED={SEED}")
    server = ApiServer(tmp_path / "api")
    await server.start()
    await asyncio.to_thread(server.write_kubeconfig, tmp_path / "kubeconfig")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.stop)
        client = await stack.enter_async_context(await Client.connect(str(tmp_path / "kubeconfig")))
        for name in NODE_NAMES:
            await client.create(NODES, builders.node(name), into=bytes)
            devices = [builders.device(f"device-{number}") for number in range(2)]
            await client.create(SLICES, builders.slice_(*devices, node_name=name), into=bytes)
        await client.create(CLASSES, builders.device_class(), into=bytes)
        await client.create(TEMPLATES, template(), "default", into=bytes)
        caches = Caches(client)
        recorder = await stack.enter_async_context(EventRecorder(client, "resource_claim"))
        controller = ClaimController(caches, Executor(client, caches, recorder))
        await stack.enter_async_context(caches)
        await stack.enter_async_context(controller)
        made = Stage(server, client, caches, tmp_path)
        stack.push_async_callback(made.end)
        yield made
