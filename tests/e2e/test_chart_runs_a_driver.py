"""The chart on a real node: its pods run the loop driver, from the first install until nothing is left."""

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from dradriver.kube.resources import PODS, SLICES
from tests.e2e import driver_image, images
from tests.e2e.bed import BedError
from tests.e2e.cluster import Cluster
from tests.e2e.helm import Helm, on_bed, set_values

NAMESPACE: Final = "dradriver-system"
DRIVER: Final = "loop.example.com"
DAEMONSET: Final = "daemonset/dradriver-loop"
PATIENCE: Final = 120.0
VALUES: Final = {
    "image.repository": driver_image.IMAGE,
    "image.tag": driver_image.TAGS[0],
    "image.pullPolicy": "Never",
    "drivers.loop.enabled": True,
    "drivers.loop.webhook": {"enabled": True, "replicas": 1},
}
SHOW: Final = "echo device=$LOOP_DEVICE; test -b $LOOP_DEVICE && echo block; exec sleep 3600"

pytestmark = pytest.mark.timeout(600)


def until(what: str, holds: Callable[[], object]) -> None:
    """Waits for something, for a long time but not for ever."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@dataclass
class Site:
    """A cluster with the chart installed."""

    cluster: Cluster
    helm: Helm
    values: Mapping[str, object]

    def get(self, *arguments: str) -> list[dict[str, Any]]:
        """What kubectl lists."""
        return list(json.loads(self.cluster.kubectl("get", "-o", "json", *arguments))["items"])

    def slices(self) -> list[dict[str, Any]]:
        items = self.cluster.bed.get(SLICES.path())["items"]
        return [item for item in items if item["spec"]["driver"] == DRIVER]

    def driver_pods(self) -> list[dict[str, Any]]:
        labels = "labelSelector=app.kubernetes.io/component%3Dloop"
        return list(self.cluster.bed.get(f"{PODS.path(NAMESPACE)}?{labels}")["items"])

    def wait(self, *arguments: str) -> None:
        """`kubectl wait` or the like; if that is in vain, what is there says why."""
        try:
            self.cluster.kubectl(*arguments, f"--timeout={PATIENCE:.0f}s")
        except BedError as error:
            events = self.cluster.kubectl("get", "events", "--all-namespaces")
            claims = self.cluster.kubectl("get", "resourceclaims,resourceslices,pods", "-A", "-o", "yaml")
            log = self.cluster.kubectl("-n", NAMESPACE, "logs", DAEMONSET, "--tail=50")
            raise BedError(f"{error}\n{events}\n{claims}\n{log}") from error

    def rolled_out(self, workload: str = DAEMONSET) -> None:
        self.wait("-n", NAMESPACE, "rollout", "status", workload)

    def make_pod(self, name: str) -> None:
        """A pod that has a loop device of its own, by a claim from the template."""
        container = {
            "name": "main", "image": images.BUSYBOX, "imagePullPolicy": "Never",
            "command": ["sh", "-c", SHOW], "resources": {"claims": [{"name": "loop"}]},
        }  # fmt: skip
        claim = {"name": "loop", "resourceClaimTemplateName": "chart-loop"}
        spec = {"containers": [container], "resourceClaims": [claim], "terminationGracePeriodSeconds": 1}
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    def apply(self, manifest: dict[str, Any]) -> None:
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def output(self, name: str) -> str:
        """What a pod that runs has printed."""
        self.wait("wait", f"pod/{name}", "--for=condition=Ready")
        return self.cluster.kubectl("logs", name)

    def delete_pods(self, *names: str) -> None:
        """Pods that are gone, and with them whatever was prepared: the kubelet waits for that."""
        self.wait("delete", "pod", *names)
        until("claims of deleted pods are gone", lambda: not self.get("resourceclaims"))


def template() -> dict[str, Any]:
    request = {"name": "loop", "exactly": {"deviceClassName": DRIVER}}
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "chart-loop"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }  # fmt: skip


@pytest.fixture(scope="module")
def site(real_cluster: Cluster) -> Iterator[Site]:
    helm, node = on_bed(real_cluster.bed, NAMESPACE), real_cluster.node()
    node.import_image(driver_image.archive())
    site = Site(real_cluster, helm, {**VALUES, "kubeletRootDir": str(node.root)})
    helm.install("dradriver", *set_values(site.values))
    try:
        site.apply(template())
        yield site
    finally:
        helm.uninstall("dradriver")
        site.cluster.kubectl("delete", "resourceclaimtemplate", "chart-loop")
        site.cluster.kubectl("delete", "namespace", NAMESPACE)


@dataclass
class Watched:
    """What was seen of a driver while something else went on."""

    site: Site
    without_slices: int = 0
    instances: list[int] = field(default_factory=list)
    end: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        while not self.end.is_set():
            self.without_slices += not self.site.slices()
            self.instances.append(len(self.site.driver_pods()))


@contextmanager
def watched(site: Site) -> Iterator[Watched]:
    """Looks at the slices and pods of the driver again and again."""
    seen = Watched(site)
    thread = threading.Thread(target=seen.look, name="watch the driver")
    thread.start()
    try:
        yield seen
    finally:
        seen.end.set()
        thread.join()


def test_its_driver_publishes_without_any_right_on_the_node(site: Site) -> None:
    site.rolled_out()
    until("slices", site.slices)
    (item,) = site.slices()
    assert item["spec"]["nodeName"] == site.cluster.node().name
    assert item["spec"]["devices"][0]["name"].startswith("loop-")
    (pod,) = site.driver_pods()
    assert pod["spec"]["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_a_pod_with_a_claim_sees_its_device(site: Site) -> None:
    site.rolled_out()
    site.make_pod("chart-pod")
    assert "device=/dev/loop" in site.output("chart-pod")
    assert "block" in site.output("chart-pod")
    status = site.cluster.kubectl("-n", NAMESPACE, "exec", DAEMONSET, "--", "dradriver", "node", "status")
    assert "default/chart-pod-loop-" in status
    site.delete_pods("chart-pod")


def test_its_metrics_can_be_read(site: Site) -> None:
    site.rolled_out()
    (pod,) = site.driver_pods()
    (port,) = pod["spec"]["containers"][0]["ports"]
    with urllib.request.urlopen(f"http://{pod['status']['podIP']}:{port['containerPort']}/metrics") as answer:
        assert f'driver="{DRIVER}"' in answer.read().decode()


def test_its_webhook_refuses_a_mistake_in_parameters(site: Site) -> None:
    site.rolled_out("deployment/dradriver-loop-webhook")
    parameters = {"apiVersion": "loop.example.com/v1", "kind": "LoopConfig", "readOnly": True}
    for wrong in ("", "readonly"):
        config = {"opaque": {"driver": DRIVER, "parameters": parameters | ({wrong: True} if wrong else {})}}
        manifest = template()
        manifest["metadata"]["name"] = "parameters"
        manifest["spec"]["spec"]["devices"]["config"] = [config]
        if not wrong:
            site.apply(manifest)
            site.cluster.kubectl("delete", "resourceclaimtemplate", "parameters")
            continue
        with pytest.raises(BedError, match=r"opaque\.parameters\.readonly: LoopConfig has no such field"):
            site.apply(manifest)


def test_an_upgrade_leaves_no_gap(site: Site) -> None:
    site.rolled_out()
    until("slices", site.slices)
    before = {pod["metadata"]["uid"] for pod in site.driver_pods()}
    with watched(site) as seen:
        site.helm.upgrade("dradriver", *set_values({**site.values, "image.tag": driver_image.TAGS[1]}))
        names = [f"chart-upgrade-{index}" for index in range(5)]
        for name in names:
            site.make_pod(name)
        site.rolled_out()
        assert all("block" in site.output(name) for name in names)
        until("the old pod is gone", lambda: len(site.driver_pods()) == 1)
    assert before.isdisjoint({pod["metadata"]["uid"] for pod in site.driver_pods()})
    assert max(seen.instances) == 2
    assert seen.without_slices == 0
    devices = [site.output(name) for name in names]
    assert len(set(devices)) == len(devices)
    site.delete_pods(*names)


def test_after_uninstall_slices_sockets_and_specs_are_gone(site: Site) -> None:
    site.rolled_out()
    node = site.cluster.node()
    site.helm.uninstall("dradriver")
    until("driver pods are gone", lambda: not site.driver_pods())
    # The kubelet removes the slices of a driver that is away for 30 s.
    until("slices are gone", lambda: not site.slices())
    assert not [path for path in node.registry.iterdir() if path.name.startswith(DRIVER)]
    assert not list(node.cdi.iterdir())
    # What stays is the driver's folder with its (empty) record of prepared claims.
    assert [path.name for path in node.plugins.iterdir()] == [DRIVER]
    assert not [path for path in (node.plugins / DRIVER).iterdir() if path.suffix == ".sock"]
