"""The chart on a real node runs the loop driver, from the installation to the removal of all objects."""

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

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
    """Slices and pods of a driver that were seen while something else happened."""

    site: Site
    without_slices: int = 0
    instances: list[int] = field(default_factory=list)
    end: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        while not self.end.is_set():
            self.without_slices += not self.site.slices()
            self.instances.append(len(self.site.driver_pods()))


@contextmanager
def observe(site: Site) -> Iterator[Observed]:
    """Read the slices and pods of the driver repeatedly."""
    seen = Observed(site)
    thread = threading.Thread(target=seen.look, name="watch the driver")
    thread.start()
    try:
        yield seen
    finally:
        seen.end.set()
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
    assert before.isdisjoint({pod["metadata"]["uid"] for pod in site.driver_pods()})
    assert max(seen.instances) == 2
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
