"""Each query of the dashboards returns data for metrics that running processes exported.

The processes are an embedded cluster, drivers of GPUs and FPGAs, and a scheduler behind a kube-scheduler. Pods
get devices between two reads of the metrics. Prometheus's own engine evaluates the queries.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.helpers import KUBECTL, Kubectl, eventually, up
from tests.e2e.bed import programs
from tests.e2e.chart.helm import CHART
from tests.ports import reserve_port
from tests.unit.extender.serving.fakes import FILTER, POD

pytestmark = [
    pytest.mark.skipif(bool(programs.missing("promtool")), reason=programs.missing("promtool") or "-"),
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed"),
    pytest.mark.timeout(300),
]

ROOT: Final = CHART.parents[1]
DRIVERS: Final = {"gpu-mig": "drivers/gpu_mig", "fpga": "drivers/fpga"}
DASHBOARDS: Final = sorted((CHART / "files" / "dashboards").glob("*.json"))
VARIABLES: Final = {"$driver": ".*", "$node": "node-1", "$job": "devices/scheduler", "$__rate_interval": "4m"}
"""Values that Grafana puts into the queries."""

Samples = Mapping[str, float]
"""Values of series by their names with all labels."""


@asynccontextmanager
async def process(*arguments: object) -> AsyncIterator[None]:
    """Run a command of dradriver until the end of the block."""
    command = [sys.executable, "-m", "dradriver.cli", *map(str, arguments)]
    environment = {**os.environ, "DRADRIVER_SIMULATE": "always"}
    running = await asyncio.create_subprocess_exec(*command, stderr=DEVNULL, env=environment)
    try:
        yield
    finally:
        if running.returncode is None:
            running.terminate()
        await running.wait()


class ScrapedCluster:
    """A cluster, and a Prometheus that reads the metrics of its processes.

    Args:
        kubectl: for the cluster.
        session: sends the requests.
    """

    def __init__(self, kubectl: Kubectl, session: aiohttp.ClientSession) -> None:
        self.kubectl = kubectl
        self._session = session
        self._targets: dict[int, Mapping[str, str]] = {}

    def add_target(self, port: int, job: str) -> None:
        """Read the metrics of a port from now on, with the labels that the chart's PodMonitor adds."""
        labels = {"namespace": "devices", "job": f"devices/{job}", "pod": f"pod-{port}", "node": "node-1"}
        self._targets[port] = {**labels, "instance": f"127.0.0.1:{port}"}

    async def wait_ready(self, port: int) -> None:
        async def answers() -> bool:
            try:
                async with self._session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

        await eventually(answers, seconds=120)

    async def filter_nodes(self, port: int) -> None:
        """Send a request as kube-scheduler does."""
        claims = [{"name": "gpu", "resourceClaimName": "missing"}]
        pod = {**POD, "spec": {"containers": [{"name": "c"}], "resourceClaims": claims}}
        async with self._session.post(f"http://127.0.0.1:{port}/filter", json={**FILTER, "Pod": pod}) as answer:
            assert answer.status == 200, await answer.text()

    async def start_pods(self) -> None:
        """Create the objects that the READMEs of the drivers name, and wait until the pods run."""
        for folder in DRIVERS.values():
            manifests = ROOT / folder / "manifests"
            await self.kubectl(
                "apply", "-f", str(manifests / "classes.yaml"), "-f", str(manifests / "pods.yaml")
            )
        await self.kubectl("wait", "pod", "--all", "--for=condition=Ready", "--timeout=120s")

    async def scrape(self) -> Samples:
        """Return the value of each series of all targets, with the labels of the target."""
        found: dict[str, float] = {}
        for port, target in self._targets.items():
            async with self._session.get(f"http://127.0.0.1:{port}/metrics") as answer:
                text = await answer.text()
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    labels = sorted({**sample.labels, **target}.items())
                    pairs = ",".join(f"{name}={json.dumps(value)}" for name, value in labels)
                    found[f"{sample.name}{{{pairs}}}"] = sample.value
        return found


@asynccontextmanager
async def scraped_cluster(data: Path) -> AsyncIterator[tuple[ScrapedCluster, int]]:
    """Run a cluster, drivers and a scheduler until the end of the block.

    Returns:
        The cluster, and the port for kube-scheduler.
    """
    ports = {name: reserve_port() for name in (*DRIVERS, "control", "extender", "scheduler")}
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        kubectl = await stack.enter_async_context(
            up(data, "--runtime", "process", "--metrics-port", str(ports["control"]))
        )
        cluster = ScrapedCluster(kubectl, session)
        access, node = ("--kubeconfig", kubectl.kubeconfig), data / "nodes" / "node-1"
        for name in DRIVERS:
            metrics = ("--metrics-host", "127.0.0.1", "--metrics-port", ports[name])
            folders = ("--plugins-dir", node / "plugins", "--registry-dir", node / "plugins_registry")
            options = (*access, "--node-name", "node-1", *folders, "--cdi-dir", node / "cdi", *metrics)
            await stack.enter_async_context(process("run", name, *options))
            cluster.add_target(ports[name], name)
        metrics = ("--metrics-host", "127.0.0.1", "--metrics-port", ports["scheduler"])
        serving = ("--port", ports["extender"], *metrics)
        await stack.enter_async_context(process("scheduler", "run", *access, *serving))
        # The embedded scheduler has the metrics that `scheduler run` has behind a kube-scheduler.
        cluster.add_target(ports["control"], "scheduler")
        cluster.add_target(ports["scheduler"], "scheduler")
        for name in (*DRIVERS, "scheduler"):
            await cluster.wait_ready(ports[name])
        yield cluster, ports["extender"]


def panels() -> Iterator[tuple[str, str, str]]:
    """Yield the dashboard, title and query of each target of each panel."""
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", []):
                yield path.stem, panel["title"], target["expr"]


def fill_in(query: str) -> str:
    """Return a query without Grafana's variables."""
    filled = re.sub(r"\$\w+", lambda found: VARIABLES[found[0]], query)
    assert "$" not in filled
    return filled


def write_cases(path: Path, scrapes: Sequence[Samples]) -> None:
    """Write a file for promtool: every query must return a number, computed from the scrapes."""
    names = sorted({name for samples in scrapes for name in samples})
    # Each scrape is seen for three minutes. "_" is a missing sample.
    series = [
        {"series": name, "values": " ".join(" ".join([str(each.get(name, "_"))] * 3) for each in scrapes)}
        for name in names
    ]
    # A quantile of no observations is NaN, which is not equal to itself.
    queries = [
        {
            "expr": f"count(({query}) == ({query})) > bool 0",
            "eval_time": f"{3 * len(scrapes) - 1}m",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for query in dict.fromkeys(fill_in(expr) for _, _, expr in panels())
    ]
    case = {"interval": "1m", "input_series": series, "promql_expr_test": queries}
    path.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [case]}))


async def read_metrics_of_work() -> Sequence[Samples]:
    with tempfile.TemporaryDirectory(prefix="dra-", dir="/tmp") as folder:
        async with scraped_cluster(Path(folder) / "data") as (cluster, extender):
            await cluster.start_pods()
            await cluster.filter_nodes(extender)
            first = await cluster.scrape()
            await cluster.kubectl("delete", "pod", "--all", "--timeout=120s")
            await cluster.start_pods()
            await cluster.filter_nodes(extender)
            return [first, await cluster.scrape()]


@pytest.fixture(scope="module")
def scrapes() -> Sequence[Samples]:
    """Return the metrics of the cluster while it works, and after more work."""
    return asyncio.run(read_metrics_of_work())


def test_every_query_of_a_panel_returns_data(scrapes: Sequence[Samples], tmp_path: Path) -> None:
    write_cases(tmp_path / "panels.yaml", scrapes)
    command = [str(programs.program("promtool")), "test", "rules", str(tmp_path / "panels.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_query_without_data_is_noticed(scrapes: Sequence[Samples], tmp_path: Path) -> None:
    queries = [fill_in(expr) for _, _, expr in panels()]
    without = [{name: value for name, value in each.items() if "_claims{" not in name} for each in scrapes]
    write_cases(tmp_path / "panels.yaml", without)
    command = [str(programs.program("promtool")), "test", "rules", str(tmp_path / "panels.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    output = done.stdout + done.stderr
    failed = {query for query in queries if json.dumps(f"count(({query}) == ({query})) > bool 0") in output}
    assert failed == {query for query in queries if "_claims{" in query}
