"""The chart on a real node runs the loop driver, from the installation to the removal of all objects."""

import asyncio
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from dradriver.kube import PODS, Cache, ChangeKind, Client
from dradriver.model.core.workload import Pod
from tests.e2e.bed.bed import BedError
from tests.e2e.bed.cluster import Cluster
from tests.e2e.bed.nodes import driver_image
from tests.e2e.chart.chart_site import DAEMONSET, DRIVER, NAMESPACE, Site, chart_site, template, until
from tests.e2e.chart.helm import set_values

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def site(real_cluster: Cluster) -> Iterator[Site]:
    with chart_site(real_cluster) as site:
        yield site


@dataclass
class Observed:
    """Slices and pods of a driver that were seen while something else happened.

    Attributes:
        site: the cluster.
        without_slices: how often no slice was found.
        most_pods: the largest number of pods that existed at one time.
        begin: set when the observation has begun.
        end: ends the observation.
    """

    site: Site
    without_slices: int = 0
    most_pods: int = 0
    begin: threading.Event = field(default_factory=threading.Event)
    end: threading.Event = field(default_factory=threading.Event)
    _pods: set[str] = field(default_factory=set)

    def read_slices(self) -> None:
        """Read the slices repeatedly."""
        while not self.end.is_set():
            self.without_slices += not self.site.slices()

    def watch_pods(self) -> None:
        """Watch the pods: a watch reports each of them, however long this process has to wait."""
        asyncio.run(self._watch_pods())

    async def _watch_pods(self) -> None:
        async with await Client.connect(str(self.site.cluster.kubeconfig())) as client:
            pods = Cache(client, PODS, Pod, NAMESPACE, labels="app.kubernetes.io/component=loop")
            pods.subscribe(self._note)
            async with pods:
                await pods.wait_synced()
                self.begin.set()
                while not self.end.is_set():
                    await asyncio.sleep(0.1)

    def _note(self, _: ChangeKind, old: Pod | None, new: Pod | None) -> None:
        if old is not None:
            self._pods.discard(old.metadata.uid)
        if new is not None:
            self._pods.add(new.metadata.uid)
        self.most_pods = max(self.most_pods, len(self._pods))


@contextmanager
def observe(site: Site) -> Iterator[Observed]:
    """Observe the slices and pods of the driver."""
    seen = Observed(site)
    threads = [
        threading.Thread(target=each, name=each.__name__) for each in (seen.read_slices, seen.watch_pods)
    ]
    for thread in threads:
        thread.start()
    try:
        until("the watch of the pods", seen.begin.is_set)
        yield seen
    finally:
        seen.end.set()
        for thread in threads:
            thread.join()


def test_the_driver_publishes_without_privileges_on_the_node(site: Site) -> None:
    site.wait_for_rollout()
    until("slices", site.slices)
    (item,) = site.slices()
    assert item["spec"]["nodeName"] == site.cluster.node().name
    assert item["spec"]["devices"][0]["name"].startswith("loop-")
    (pod,) = site.driver_pods()
    assert pod["spec"]["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_a_pod_with_a_claim_sees_its_device(site: Site) -> None:
    site.wait_for_rollout()
    site.make_pod("chart-pod")
    assert "device=/dev/loop" in site.output("chart-pod")
    assert "block" in site.output("chart-pod")
    status = site.cluster.kubectl("-n", NAMESPACE, "exec", DAEMONSET, "--", "dradriver", "node", "status")
    assert "default/chart-pod-loop-" in status
    site.delete_pods("chart-pod")


def test_the_metrics_can_be_read(site: Site) -> None:
    site.wait_for_rollout()
    (pod,) = site.driver_pods()
    (port,) = pod["spec"]["containers"][0]["ports"]
    with urllib.request.urlopen(f"http://{pod['status']['podIP']}:{port['containerPort']}/metrics") as answer:
        assert f'driver="{DRIVER}"' in answer.read().decode()


def can_apply(site: Site, manifest: dict[str, Any]) -> bool:
    """Apply a manifest; return False while the API server cannot reach the webhook."""
    try:
        site.apply(manifest)
    except BedError as error:
        if "failed calling webhook" in str(error):
            return False
        raise
    return True


def test_the_webhook_rejects_invalid_parameters(site: Site) -> None:
    site.wait_for_rollout("deployment/dradriver-loop-webhook")
    parameters = {"apiVersion": "loop.example.com/v1", "kind": "LoopConfig", "readOnly": True}
    for wrong in ("", "readonly"):
        config = {"opaque": {"driver": DRIVER, "parameters": parameters | ({wrong: True} if wrong else {})}}
        manifest = template()
        manifest["metadata"]["name"] = "parameters"
        manifest["spec"]["spec"]["devices"]["config"] = [config]
        if not wrong:
            until("the webhook is called", partial(can_apply, site, manifest))
            site.cluster.kubectl("delete", "resourceclaimtemplate", "parameters")
            continue
        with pytest.raises(BedError, match=r"opaque\.parameters\.readonly: LoopConfig has no such field"):
            site.apply(manifest)


def test_an_upgrade_leaves_no_gap(site: Site) -> None:
    site.wait_for_rollout()
    until("slices", site.slices)
    before = {pod["metadata"]["uid"] for pod in site.driver_pods()}
    with observe(site) as seen:
        site.helm.upgrade("dradriver", *set_values({**site.values, "image.tag": driver_image.TAGS[1]}))
        names = [f"chart-upgrade-{index}" for index in range(5)]
        for name in names:
            site.make_pod(name)
        site.wait_for_rollout()
        assert all("block" in site.output(name) for name in names)
        until("the old pod is gone", lambda: len(site.driver_pods()) == 1)
        until("two pods at one time", lambda: seen.most_pods > 1)
    assert before.isdisjoint({pod["metadata"]["uid"] for pod in site.driver_pods()})
    assert seen.most_pods == 2
    assert seen.without_slices == 0
    devices = [site.output(name) for name in names]
    assert len(set(devices)) == len(devices)
    site.delete_pods(*names)


def test_uninstall_removes_slices_sockets_and_specs(site: Site) -> None:
    site.wait_for_rollout()
    node = site.cluster.node()
    site.helm.uninstall("dradriver")
    until("driver pods are gone", lambda: not site.driver_pods())
    # The kubelet removes the slices of a driver 30 s after its end.
    until("slices are gone", lambda: not site.slices())
    assert not [path for path in node.registry.iterdir() if path.name.startswith(DRIVER)]
    assert not list(node.cdi.iterdir())
    # Only the driver's folder with its (empty) prepared state stays.
    assert not [path for path in (node.plugins / DRIVER).iterdir() if path.suffix == ".sock"]
