"""The chart on a cluster with a real node, and pods that use its driver."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from dradriver.kube.resources import PODS, SLICES
from tests.e2e.bed.bed import BedError
from tests.e2e.bed.cluster import Cluster
from tests.e2e.bed.credentials import NODES
from tests.e2e.bed.nodes import driver_image, images
from tests.e2e.chart.helm import Helm, on_bed, set_values

NAMESPACE: Final = "dradriver-system"
DRIVER: Final = "loop.example.com"
DAEMONSET: Final = "daemonset/dradriver-loop"
PATIENCE: Final = 120.0
NODE: Final = {"kubernetes.io/hostname": NODES[0]}
"""The one that has the image; other tests may have started more nodes."""
VALUES: Final = {
    "image.repository": driver_image.IMAGE,
    "image.tag": driver_image.TAGS[0],
    "image.pullPolicy": "Never",
    "drivers.loop.enabled": True,
    "drivers.loop.nodeSelector": NODE,
    "drivers.loop.webhook": {"enabled": True, "replicas": 1, "nodeSelector": NODE},
}
SHOW: Final = "echo device=$LOOP_DEVICE; test -b $LOOP_DEVICE && echo block; exec sleep 3600"


def until(what: str, holds: Callable[[], object]) -> None:
    """Wait until a condition is true, with a time limit."""
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
        """Return the objects that kubectl lists."""
        return list(json.loads(self.cluster.kubectl("get", "-o", "json", *arguments))["items"])

    def slices(self) -> list[dict[str, Any]]:
        items = self.cluster.bed.get(SLICES.path())["items"]
        return [item for item in items if item["spec"]["driver"] == DRIVER]

    def driver_pods(self) -> list[dict[str, Any]]:
        labels = "labelSelector=app.kubernetes.io/component%3Dloop"
        return list(self.cluster.bed.get(f"{PODS.path(NAMESPACE)}?{labels}")["items"])

    def wait(self, *arguments: str) -> None:
        """Run `kubectl wait` or similar; a failure reports the state of the cluster."""
        try:
            self.cluster.kubectl(*arguments, f"--timeout={PATIENCE:.0f}s")
        except BedError as error:
            events = self.cluster.kubectl("get", "events", "--all-namespaces")
            claims = self.cluster.kubectl("get", "resourceclaims,resourceslices,pods", "-A", "-o", "yaml")
            log = self.cluster.kubectl("-n", NAMESPACE, "logs", DAEMONSET, "--tail=50")
            raise BedError(f"{error}\n{events}\n{claims}\n{log}") from error

    def wait_for_rollout(self, workload: str = DAEMONSET) -> None:
        self.wait("-n", NAMESPACE, "rollout", "status", workload)

    def make_pod(self, name: str, scheduler: str = "default-scheduler") -> None:
        """Create a pod with a loop device of its own, by a claim from the template."""
        container = {
            "name": "main", "image": images.BUSYBOX, "imagePullPolicy": "Never",
            "command": ["sh", "-c", SHOW], "resources": {"claims": [{"name": "loop"}]},
        }  # fmt: skip
        claim = {"name": "loop", "resourceClaimTemplateName": "chart-loop"}
        spec = {
            "containers": [container], "resourceClaims": [claim], "terminationGracePeriodSeconds": 1,
            "schedulerName": scheduler,
        }  # fmt: skip
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    def apply(self, manifest: dict[str, Any]) -> None:
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def output(self, name: str) -> str:
        """Wait until a pod is ready and its log shows the device; return its log."""
        self.wait("wait", f"pod/{name}", "--for=condition=Ready")
        until(f"log of pod {name}", lambda: "block" in self.cluster.kubectl("logs", name))
        return self.cluster.kubectl("logs", name)

    def delete_pods(self, *names: str) -> None:
        """Delete pods and wait until their claims are gone, which the kubelet unprepares first."""
        self.wait("delete", "pod", *names)
        until("claims of deleted pods are gone", lambda: not self.get("resourceclaims"))


def template() -> dict[str, Any]:
    request = {"name": "loop", "exactly": {"deviceClassName": DRIVER}}
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "chart-loop"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }  # fmt: skip


@contextmanager
def chart_site(cluster: Cluster, values: Mapping[str, object] = VALUES) -> Iterator[Site]:
    """Install the chart with the loop driver, until the end of the test."""
    helm, node = on_bed(cluster.bed, NAMESPACE), cluster.node()
    node.import_image(driver_image.archive())
    site = Site(cluster, helm, {**values, "kubeletRootDir": str(node.root)})
    helm.install("dradriver", *set_values(site.values))
    try:
        site.apply(template())
        yield site
    finally:
        helm.uninstall("dradriver")
        cluster.kubectl("delete", "resourceclaimtemplate", "chart-loop")
        cluster.kubectl("delete", "namespace", NAMESPACE)
