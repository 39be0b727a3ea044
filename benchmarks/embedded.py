"""`python -m benchmarks.embedded`: the scheduler with the API server in the same process, as in `dradriver up`.

The pods and their claims are created over HTTP in the same process, too. The figures include all three parts.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from benchmarks.report import markdown
from benchmarks.scheduling import shared_pool
from benchmarks.waiting import FABRIC, each, fabric
from dradriver.aio.bulk_load import collect_garbage_rarely
from dradriver.cluster.apiserver import ApiServer
from dradriver.control.controllers import Controllers
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import CLAIMS, CLASSES, NODES, PODS, SLICES, Client
from dradriver.model.core.workload import Pod
from dradriver.model.resource.slices import ResourceSlice
from dradriver.testing import builders

_HEAD: Final = ("scenario", "pods", "seconds", "CPU s", "CPU ms a pod", "pods a CPU second", "writes a pod")


async def build(client: Client, nodes: int, pool: Iterable[ResourceSlice]) -> None:
    """Create nodes with two devices each, a pool that all nodes reach, and its class."""
    names = [f"node-{number}" for number in range(nodes)]
    local = (builders.slice_(builders.device("a"), builders.device("b"), node_name=name) for name in names)
    await each(names, lambda name: client.create(NODES, builders.node(name), into=bytes))
    await each((*local, *pool), lambda body: client.create(SLICES, body, into=bytes))
    await client.create(CLASSES, builders.device_class(FABRIC), into=bytes)


async def make_pods(client: Client, controllers: Controllers, count: int) -> None:
    """Create pods with a claim each, and return when each has a node or a nominated node."""
    served: set[str] = set()
    done = asyncio.Event()

    def record(_kind: object, _old: object, new: Pod | None) -> None:
        if new is not None and (new.spec.node_name or new.status.nominated_node_name):
            served.add(new.ref)
            if len(served) == count:
                done.set()

    async def make(name: str) -> None:
        claim = builders.claim(builders.device_request(FABRIC), name=name)
        await client.create(CLAIMS, claim, "default", into=bytes)
        await client.create(PODS, builders.pod(name, name=name), "default", into=bytes)

    controllers.caches.pods.subscribe(record)
    await each([f"pod-{number}" for number in range(count)], make)
    await done.wait()


async def revision(client: Client) -> int:
    """Return the number of writes so far."""
    return int((await client.list(CLASSES, into=dict)).resource_version)


async def measure(title: str, nodes: int, pods: int, pool: Iterable[ResourceSlice]) -> Sequence[str]:
    """Return the row of one scenario."""
    with tempfile.TemporaryDirectory(prefix="dradriver-bench-") as directory:
        server = ApiServer(Path(directory) / "server")
        await server.start()
        kubeconfig = Path(directory) / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        try:
            async with await Client.connect(str(kubeconfig)) as client:
                await build(client, nodes, pool)
                settings = SchedulerSettings(binding_timeout=timedelta(hours=1))
                async with Controllers(client, settings) as controllers:
                    first = await revision(client)
                    began, used = time.monotonic(), time.process_time()
                    await make_pods(client, controllers, pods)
                    seconds, cpu = time.monotonic() - began, time.process_time() - used
                    writes = await revision(client) - first
        finally:
            await server.stop()
    print(f"{title}: {cpu:.3g} s of CPU", file=sys.stderr)
    figures = (seconds, cpu, 1000 * cpu / pods, pods / cpu, writes / pods)
    return title, str(pods), *(f"{figure:.3g}" for figure in figures)


async def main() -> int:
    """Run the scenarios, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embedded", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=1000)
    options = parser.parse_args()
    collect_garbage_rarely()
    nodes, pods = options.nodes, options.pods
    rows = [
        await measure(f"pods that wait for binding conditions, {nodes} nodes", nodes, pods, fabric(pods)),
        await measure(f"pods that are bound, {nodes} nodes", nodes, pods, shared_pool(pods)),
    ]
    print(markdown(_HEAD, rows))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
