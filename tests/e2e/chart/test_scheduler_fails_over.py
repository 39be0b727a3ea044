"""Two pods of the chart's scheduler: where kube-scheduler leads, its extender leads.

The configuration, the options and the account are those of the chart, except for the times of the Leases. A pod
is a UTS namespace here: its processes have one host name. Both pods are in one network namespace, so they have
different ports.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from dradriver.kube import CLAIMS, CLASSES, LEASES, PODS, SLICES, Client
from dradriver.model.core.lease import Lease
from dradriver.testing import builders
from tests.e2e.bed import api_server_clients, control_plane
from tests.e2e.bed.api_server_bed import ApiServerBed, api_server_bed
from tests.e2e.bed.programs import SCHEDULING, missing, program
from tests.e2e.chart.helm import Helm, find_manifest, on_bed, set_values
from tests.e2e.chart.pod_tokens import plain_token
from tests.e2e.scheduling.scheduled_cluster import ScheduledCluster, connect
from tests.ports import reserve_port

NAMESPACE: Final = "devices"
NAME: Final = "dradriver-scheduler"
VALUES: Final = {
    "image.repository": "registry.example.com/d",
    "scheduler.enabled": True,
    "scheduler.kubeScheduler.image.repository": "registry.example.com/k",
}
LEASE_SECONDS: Final = 24
"""With the 9 s of the chart, a leader ends if a busy machine suspends it for 6 s."""
_IN_POD: Final = ("unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"')


@dataclass
class SchedulerPod:
    """One pod: its two processes on the bed."""

    bed: ApiServerBed
    manifests: list[dict[str, Any]]
    kubeconfig: Path
    name: str
    port: int = field(default_factory=reserve_port)
    metrics_port: int = field(default_factory=reserve_port)

    def start_extender(self) -> None:
        """Start the extender with the arguments of the chart, and wait until it listens. Blocking."""
        deployment = find_manifest(self.manifests, "Deployment", NAME)
        extender = deployment["spec"]["template"]["spec"]["containers"][0]
        replaced = {"--port": self.port, "--metrics-port": self.metrics_port}
        arguments = [word for word in extender["args"] if word.partition("=")[0] not in replaced]
        arguments += [f"{name}={value}" for name, value in replaced.items()]
        arguments += [f"--kubeconfig={self.kubeconfig}", f"--lease-seconds={LEASE_SECONDS}"]
        self._spawn("extender", sys.executable, "-m", "dradriver.cli", *arguments)
        self.bed.wait(f"{self.name}-extender", lambda: self.is_ready("/readyz/standby"))

    def start_kube_scheduler(self) -> None:
        """Start kube-scheduler with the configuration of the chart."""
        manifests, kubeconfig = self.manifests, self.kubeconfig
        config = yaml.safe_load(find_manifest(manifests, "ConfigMap", NAME)["data"]["config.yaml"])
        config["clientConnection"]["kubeconfig"] = str(kubeconfig)
        config["leaderElection"] |= {
            "leaseDuration": f"{LEASE_SECONDS}s", "renewDeadline": f"{LEASE_SECONDS * 2 // 3}s",
        }  # fmt: skip
        for entry in config["extenders"]:
            entry["urlPrefix"] = f"http://127.0.0.1:{self.port}"
        (path := self.bed.folder / f"{self.name}.json").write_text(json.dumps(config))
        self._spawn(
            "kube-scheduler", str(program("kube-scheduler")), f"--config={path}",
            f"--secure-port={reserve_port()}", "--bind-address=127.0.0.1",
            f"--authentication-kubeconfig={kubeconfig}",
        )  # fmt: skip

    def end(self, process: str, how: signal.Signals) -> None:
        """End one of the processes."""
        self.bed.end(f"{self.name}-{process}", how)

    def is_ready(self, path: str = "/readyz") -> bool:
        """Return whether the extender answers a probe with 200."""
        return control_plane.answers(f"http://127.0.0.1:{self.metrics_port}{path}")

    def _spawn(self, process: str, *command: str) -> None:
        self.bed.spawn(f"{self.name}-{process}", *_IN_POD, self.name, *command)


@dataclass
class Site:
    """A cluster with the chart's scheduler in two pods."""

    client: Client
    plane: ScheduledCluster
    pods: list[SchedulerPod]

    async def leader(self, not_in: SchedulerPod | None = None) -> SchedulerPod:
        """Wait until one extender leads; return its pod.

        The Leases of a leader that was killed expire first.
        """
        async with asyncio.timeout(120):
            while True:
                ready = [
                    pod for pod in self.pods if pod is not not_in and await asyncio.to_thread(pod.is_ready)
                ]
                if ready:
                    return ready[0]
                await asyncio.sleep(0.1)

    async def until_standby(self, pod: SchedulerPod) -> None:
        """Wait until the extender of a pod answers the probe of a standby."""
        async with asyncio.timeout(60):
            while not await asyncio.to_thread(pod.is_ready, "/readyz/standby"):
                await asyncio.sleep(0.1)

    async def holders(self) -> list[str]:
        """Return the host names of the holders of both Leases."""
        leases = [
            await self.client.get(LEASES, name, NAMESPACE, into=Lease)
            for name in (NAME, f"{NAME}-kube-scheduler")
        ]
        return [lease.spec.holder_identity.rpartition("_")[0] for lease in leases]

    async def schedule(self, name: str) -> None:
        """Create a pod with a claim for one device, and wait until it is bound."""
        claim = builders.claim(builders.device_request(), name=name)
        await self.client.create(CLAIMS, claim, "default", into=dict)
        container = {"name": "main", "image": "busybox", "resources": {"claims": [{"name": "device"}]}}
        spec = {
            "schedulerName": "dradriver",
            "containers": [container],
            "resourceClaims": [{"name": "device", "resourceClaimName": name}],
        }
        await self.client.create(PODS, {"metadata": {"name": name}, "spec": spec}, "default", into=dict)
        await self.plane.bound(name, seconds=60)


@pytest.fixture(scope="module")
def bed() -> Iterator[ApiServerBed]:
    if reason := missing(*SCHEDULING, "helm") or ("UTS namespaces need root" if os.geteuid() else ""):
        pytest.skip(reason)
    with api_server_bed() as made:
        made.serve()
        control_plane.start_controller_manager(made, ())
        yield made


@pytest.fixture
async def site(bed: ApiServerBed, tmp_path: Path) -> AsyncIterator[Site]:
    helm: Helm = on_bed(bed, NAMESPACE)
    helm.install("dradriver", *set_values(VALUES))
    manifests = helm.template(*set_values(VALUES), release="dradriver")
    async with api_server_clients.real(bed) as api:
        token = await plain_token(api, NAMESPACE, NAME)
    document = json.loads(Path(bed.kubeconfig()).read_text())
    document["users"][0]["user"] = {"token": token}
    (kubeconfig := tmp_path / "kubeconfig").write_text(json.dumps(document))
    pods = [SchedulerPod(bed, manifests, kubeconfig, f"scheduler-{suffix}") for suffix in "ab"]
    async with connect(bed) as plane:
        await plane.node("node-1")
        await plane.client.create(CLASSES, builders.device_class(), into=dict)
        devices = [builders.device(f"device-{number}") for number in range(4)]
        await plane.client.create(SLICES, builders.slice_(*devices, node_name="node-1"), into=dict)
        for pod in pods:
            await asyncio.to_thread(pod.start_extender)
            pod.start_kube_scheduler()
        yield Site(plane.client, plane, pods)


async def test_the_extender_of_the_next_leader_takes_over(site: Site) -> None:
    first = await site.leader()
    (second,) = (pod for pod in site.pods if pod is not first)
    assert await site.holders() == [first.name] * 2
    await site.until_standby(second)
    assert not second.is_ready()
    await site.schedule("with-the-first-leader")

    # kube-scheduler ends and releases its Lease; its extender goes on as a standby.
    first.end("kube-scheduler", signal.SIGTERM)
    assert await site.leader(not_in=first) is second
    await site.schedule("with-the-second-leader")
    assert await site.holders() == [second.name] * 2
    await site.until_standby(first)
    assert not first.is_ready()

    # The whole pod dies and releases nothing. The kubelet has restarted the kube-scheduler of the first pod.
    first.start_kube_scheduler()
    for process in ("extender", "kube-scheduler"):
        second.end(process, signal.SIGKILL)
    assert await site.leader(not_in=second) is first
    await site.schedule("with-the-first-leader-again")
    assert await site.holders() == [first.name] * 2
