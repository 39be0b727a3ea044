"""`python -m benchmarks.soak`: growth of a cluster's processes while thousands of pods come and go.

`dradriver up` runs with two drivers of simulated hardware. Each pod claims a device of one of them, runs
`true`, ends and is deleted. The figures of every process are read at regular intervals.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from benchmarks.peers import ROOT
from benchmarks.report import markdown
from benchmarks.soak.figures import FIGURES, Sample, children, sample
from benchmarks.soak.workload import WORKLOADS, PodRunner
from dradriver.kube import CLAIMS, PODS, SLICES, Cache, Client
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice

_NODE: Final = "node-1"
_CLUSTER: Final = "up"


@asynccontextmanager
async def _cluster(folder: Path) -> AsyncIterator[int]:
    """Run `dradriver up` as a process and yield its PID after its last line of startup output."""
    options = [option for workload in WORKLOADS for option in ("--driver", workload.entry)]
    with (folder / "up.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dradriver.cli", "up", "--data", str(folder), "--runtime", "process"),
            *options,
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env={**os.environ, "DRADRIVER_SIMULATE": "always"},
        )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            if b"Ctrl-C" in line:
                break
        yield process.pid
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _look(pods: int, folder: Path, up: int) -> list[Sample]:
    """Return the figures of every process of the cluster."""
    node = folder / "nodes" / _NODE
    found = [await sample(pods, _CLUSTER, up, folder / "apiserver" / "state.db", folder / "up.log")]
    running = list(children(up))
    for workload in WORKLOADS:
        pid = next(pid for pid, command in running if f" run {workload.entry} " in f"{command} ")
        (database,) = (node / "plugins").glob(f"*{workload.driver}*/state.db")
        found.append(await sample(pods, workload.entry, pid, database, node / f"{workload.entry}.log"))
    return found


def _tables(samples: Sequence[Sample], settled: int) -> Iterable[str]:
    """Yield the figures of each process over time. The last row has the changes since `settled` pods."""
    for process in dict.fromkeys(each.process for each in samples):
        own = [each for each in samples if each.process == process]
        rows = [[str(each.pods), *(f"{value:.4g}" for value in each.values)] for each in own]
        first = next((each for each in own if each.pods >= settled), own[-1])
        change = (last - before for last, before in zip(own[-1].values, first.values, strict=True))
        rows.append([f"since {first.pods}", *(f"{value:+.3g}" for value in change)])
        yield f"`{process}`:\n\n" + markdown(["pods", *FIGURES], rows) + "\n"


async def _measure(folder: Path, pods: int, side_by_side: int, every: int) -> tuple[list[Sample], float]:
    samples: list[Sample] = []
    async with (
        _cluster(folder) as up,
        await Client.connect(str(folder / "kubeconfig")) as client,
        Cache(client, PODS, Pod) as seen,
        Cache(client, CLAIMS, ResourceClaim) as claims,
        Cache(client, SLICES, ResourceSlice) as slices,
    ):
        published = {each.spec.driver for each in slices.items.values()}
        while not {workload.driver for workload in WORKLOADS} <= published:
            await asyncio.sleep(0.1)
            published = {each.spec.driver for each in slices.items.values()}
        runner = PodRunner(client, seen, claims)
        await runner.prepare()
        samples += await _look(0, folder, up)
        began = time.monotonic()

        async def after(done: int) -> None:
            if done % every == 0 or done == pods:
                taken = await _look(done, folder, up)
                samples.extend(taken)
                sizes = ", ".join(f"{each.process} {each.values[0]:.0f} MiB" for each in taken)
                print(f"{done} of {pods} pods, {time.monotonic() - began:.0f} s: {sizes}", file=sys.stderr)

        await runner.run(pods, side_by_side, after)
        seconds = time.monotonic() - began
    return samples, seconds


async def main() -> int:
    """Run the pods and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--pods", type=int, default=5000, help="that come and go (default 5000)")
    parser.add_argument("--side-by-side", type=int, default=12, help="of them at one time (default 12)")
    options = parser.parse_args()
    every = max(1, options.pods // 10)
    with tempfile.TemporaryDirectory(prefix="soak-") as directory:
        samples, seconds = await _measure(Path(directory), options.pods, options.side_by_side, every)
    for table in _tables(samples, options.pods * 2 // 5):
        print(table)
    print(f"{options.pods} pods in {seconds:.0f} s, {options.pods / seconds:.1f} a second")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
