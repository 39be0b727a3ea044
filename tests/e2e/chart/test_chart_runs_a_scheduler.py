"""The chart's scheduler as real pods: kube-scheduler and the extender in each pod, started by a kubelet.

The images are built from the programs of the bed. Its pod network enforces no NetworkPolicy, so the connections
of the running processes are compared with the rules of the policy.
"""

import json
import os
import re
import signal
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from dradriver.kube.resources import LEASES, PODS
from tests.e2e.bed.cluster import Cluster
from tests.e2e.bed.nodes import driver_image, kube_scheduler_image
from tests.e2e.chart.chart_site import NAMESPACE, NODE, Site, chart_site, until

pytestmark = pytest.mark.timeout(600)

NAME: Final = "dradriver-scheduler"
DEPLOYMENT: Final = f"deployment/{NAME}"
LEASE_NAMES: Final = (NAME, f"{NAME}-kube-scheduler")
SCHEDULER_VALUES: Final[Mapping[str, object]] = {
    "image.repository": driver_image.IMAGE,
    "image.tag": driver_image.TAGS[0],
    "image.pullPolicy": "Never",
    "drivers.loop.enabled": True,
    "drivers.loop.nodeSelector": NODE,
    "networkPolicy.enabled": True,
    "scheduler.enabled": True,
    "scheduler.nodeSelector": NODE,
    "scheduler.image.repository": f"{driver_image.IMAGE}-scheduler",
    "scheduler.kubeScheduler.image.repository": kube_scheduler_image.IMAGE,
    "scheduler.kubeScheduler.image.pullPolicy": "Never",
}
FAST_PROBE: Final = {"periodSeconds": 2, "timeoutSeconds": 2, "failureThreshold": 5}
"""The liveness probes of the chart fail after a minute."""


@dataclass
class SchedulerSite:
    """The chart with its scheduler on the node."""

    chart: Site

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods of the scheduler that are not being deleted."""
        labels = "labelSelector=app.kubernetes.io/component%3Dscheduler"
        items = self.chart.cluster.bed.get(f"{PODS.path(NAMESPACE)}?{labels}")["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    def holders(self) -> set[str]:
        """Return the names of the pods that hold the two Leases."""
        leases = [self.chart.cluster.bed.get(LEASES.path(NAMESPACE, name)) for name in LEASE_NAMES]
        return {str(lease["spec"].get("holderIdentity", "")).rpartition("_")[0] for lease in leases}

    def leader(self) -> dict[str, Any]:
        """Wait until both containers of one pod lead; return the pod."""
        found: list[dict[str, Any]] = []

        def leads() -> bool:
            holders = self.holders()
            found[:] = [pod for pod in self.pods() if holders == {pod["metadata"]["name"]}]
            return bool(found)

        until("one pod leads", leads)
        return found[0]

    def wait_for_rollout(self) -> None:
        self.chart.wait_for_rollout(DEPLOYMENT)

    def restarts(self, pod: str) -> dict[str, int]:
        """Return how often the kubelet has restarted each container of a pod."""
        (found,) = [each for each in self.pods() if each["metadata"]["name"] == pod]
        return {each["name"]: each["restartCount"] for each in found["status"]["containerStatuses"]}

    def process(self, pod: dict[str, Any], container: str) -> Path:
        """Return the folder in /proc of the first process of a container."""
        (status,) = [each for each in pod["status"]["containerStatuses"] if each["name"] == container]
        task = self.chart.cluster.node().ctr("tasks", "ls")
        found = re.search(rf"^{status['containerID'].rpartition('/')[2]}\s+(\d+)", task, re.MULTILINE)
        assert found, task
        return Path("/proc", found[1])


@pytest.fixture(scope="module")
def site(real_cluster: Cluster) -> Iterator[SchedulerSite]:
    node = real_cluster.node()
    node.import_image(driver_image.archive("scheduler"))
    node.import_image(kube_scheduler_image.archive())
    with chart_site(real_cluster, SCHEDULER_VALUES) as chart:
        yield SchedulerSite(chart)


def metric(pod: dict[str, Any], name: str) -> float:
    with urllib.request.urlopen(f"http://{pod['status']['podIP']}:8090/metrics", timeout=10) as answer:
        found = re.search(rf"^{name} (\S+)$", answer.read().decode(), re.MULTILINE)
    assert found, name
    return float(found[1])


def leads(pod: dict[str, Any]) -> bool:
    """Return whether the extender of a pod leads; it takes its Lease before it leads."""
    try:
        return metric(pod, "dradriver_extender_leading") == 1
    except OSError:  # the container is being restarted
        return False


def test_a_pod_with_a_claim_runs_through_kube_scheduler_and_the_extender(site: SchedulerSite) -> None:
    site.wait_for_rollout()
    site.chart.wait_for_rollout()
    leader = site.leader()
    pods = site.pods()
    assert len(pods) == 2
    until("the extender leads", lambda: leads(leader))
    assert sum(metric(pod, "dradriver_extender_leading") for pod in pods) == 1
    site.chart.make_pod("scheduled", "dradriver")
    assert "block" in site.chart.output("scheduled")
    events: list[dict[str, Any]] = []

    def is_reported() -> bool:
        # kube-scheduler writes the event after the extender has bound the pod.
        events[:] = site.chart.get(
            "events", "--field-selector", "reason=Scheduled,involvedObject.name=scheduled"
        )
        return bool(events)

    until("the event of kube-scheduler", is_reported)
    reporters = {event.get("reportingComponent") or event["source"]["component"] for event in events}
    assert reporters == {"dradriver"}
    assert metric(leader, 'dradriver_extender_requests_total{outcome="ok",verb="bind"}') == 1
    site.chart.delete_pods("scheduled")


@pytest.mark.parametrize("container", ["extender", "kube-scheduler"])
def test_a_container_has_no_rights_on_its_node(site: SchedulerSite, container: str) -> None:
    site.wait_for_rollout()
    process = site.process(site.leader(), container)
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
    assert set(status["Uid"].split()) == {"65532"}
    assert set(status["Gid"].split()) == {"65532"}
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    root = next(line for line in (process / "mountinfo").read_text().splitlines() if line.split()[4] == "/")
    assert "ro" in root.split()[5].split(",")
    token = process / "root/var/run/secrets/kubernetes.io/serviceaccount/token"
    assert token.read_text().count(".") == 2


def test_the_network_policy_allows_the_connections_of_the_pods(site: SchedulerSite) -> None:
    site.wait_for_rollout()
    leader = site.leader()
    (policy,) = [
        each for each in site.chart.get("-n", NAMESPACE, "networkpolicy") if each["metadata"]["name"] == NAME
    ]
    (api_server, _dns) = policy["spec"]["egress"]
    ports = {each["name"]: each["containerPort"] for each in _ports(leader)}
    (ingress,) = policy["spec"]["ingress"]
    served, sent = _connections(site.process(leader, "extender"))
    loopback = {9444}
    assert served - loopback == {ports[each["port"]] for each in ingress["ports"]}
    assert sent
    assert sent <= {each["port"] for each in api_server["ports"]}


def _ports(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [port for container in pod["spec"]["containers"] for port in container["ports"]]


def _connections(process: Path) -> tuple[set[int], set[int]]:
    """Return the ports on which a pod listens, and the remote ports of its connections to other addresses."""
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in (process / "net" / name).read_text().splitlines()[1:]
    ]
    served = {_port(row[1]) for row in rows if row[3] == "0A"}
    sent = {
        _port(row[2])
        for row in rows
        if row[3] == "01" and not row[2].startswith("0100007F") and _port(row[1]) not in served
    }
    return served, sent


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def test_the_kubelet_restarts_both_containers_if_the_extender_hangs(site: SchedulerSite) -> None:
    """The kube-scheduler of the pod releases its Lease. Then one of the two pods leads, and schedules."""
    site.wait_for_rollout()
    before = {pod["metadata"]["name"] for pod in site.pods()}
    containers = [{"name": name, "livenessProbe": FAST_PROBE} for name in ("extender", "kube-scheduler")]
    spec = {"terminationGracePeriodSeconds": 2, "containers": containers}
    patch = json.dumps({"spec": {"template": {"spec": spec}}})
    site.chart.cluster.kubectl("-n", NAMESPACE, "patch", DEPLOYMENT, "--patch", patch)
    site.wait_for_rollout()
    until("the old pods end", lambda: before.isdisjoint(pod["metadata"]["name"] for pod in site.pods()))
    hanging = site.leader()
    name = hanging["metadata"]["name"]
    restarts = site.restarts(name)
    os.kill(int(site.process(hanging, "extender").name), signal.SIGSTOP)
    site.chart.make_pod("during-the-failover", "dradriver")
    assert "block" in site.chart.output("during-the-failover")
    # A slow machine can restart a container more than once.
    until(
        "both containers are restarted",
        lambda: all(count > restarts[each] for each, count in site.restarts(name).items()),
    )
    site.wait_for_rollout()
    until("the extender leads", lambda: leads(site.leader()))
    site.chart.delete_pods("during-the-failover")
