"""Functions of the bed's nodes: networks, logs, exec, images, and the state after a reboot."""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.e2e.bed.bed import BedError
from tests.e2e.bed.cluster import Cluster
from tests.e2e.bed.nodes import images

NAMESPACE = "bed"
PATIENCE = 60.0
KNOCK = r"printf 'GET / HTTP/1.0\r\n\r\n' | nc $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT"
"""BusyBox knows too little of TLS to ask more."""


@pytest.fixture(scope="module")
def cluster(real_cluster: Cluster) -> Iterator[Cluster]:
    real_cluster.kubectl("create", "namespace", NAMESPACE)
    yield real_cluster
    real_cluster.kubectl("delete", "pods", "--all", "-n", NAMESPACE)
    real_cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def run(cluster: Cluster, name: str, script: str, image: str = images.BUSYBOX, **spec: Any) -> None:
    container = {
        "name": "main", "image": image, "imagePullPolicy": "Never", "command": ["sh", "-c", script],
    }  # fmt: skip
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"pod": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }  # fmt: skip
    until(lambda: create_pod(cluster, pod))


def create_pod(cluster: Cluster, body: dict[str, Any]) -> bool:
    """Create a pod; return False while the namespace has no service account."""
    try:
        cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(body))
    except BedError:
        return False
    return True


def until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def phase(cluster: Cluster, name: str, wanted: str) -> None:
    cluster.kubectl("wait", "-n", NAMESPACE, f"--for=jsonpath={{.status.phase}}={wanted}", f"pod/{name}",
                    f"--timeout={PATIENCE:.0f}s")  # fmt: skip


@pytest.mark.parametrize("host_network", [False, True])
def test_a_pod_reaches_the_api_server_in_the_usual_place(cluster: Cluster, host_network: bool) -> None:
    name = f"asks-{host_network}".lower()
    run(cluster, name, KNOCK, hostNetwork=host_network, restartPolicy="Never")
    phase(cluster, name, "Succeeded")
    assert "an HTTP request to an HTTPS server" in cluster.kubectl("logs", "-n", NAMESPACE, name)


def reaches(cluster: Cluster, pod: str, address: str, page: str) -> bool:
    """Return whether a pod gets this page from an address; False while nothing listens there."""
    try:
        answer = cluster.kubectl("exec", "-n", NAMESPACE, pod, "--", "wget", "-qO-", f"http://{address}/")
    except BedError:
        return False
    return answer.strip() == page


def test_pods_of_two_nodes_reach_each_other(cluster: Cluster) -> None:
    for index in (1, 2):
        node = cluster.node(f"node-{index}").name
        run(cluster, f"at-{node}", f"mkdir /www; echo {node} >/www/index.html; exec httpd -f -p 80 -h /www",
            nodeName=node)  # fmt: skip
    for index in (1, 2):
        phase(cluster, f"at-node-{index}", "Running")
    for mine, other in (("node-1", "node-2"), ("node-2", "node-1")):
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/at-{other}"
        address = cluster.bed.get(path)["status"]["podIP"]
        until(partial(reaches, cluster, f"at-{mine}", address, other))


def test_a_written_image_runs(cluster: Cluster, tmp_path: Any) -> None:
    program = images.busybox_program()
    assert program is not None
    archive, name = tmp_path / "own.tar", "example.com/own:1"
    layer = images.layer({"bin/busybox": program.read_bytes(), "hello": b"hello"}, {"bin/sh": "busybox"})
    images.write_image(archive, [layer], {name: {"User": "1000"}})
    cluster.node().import_image(archive)
    run(cluster, "own", "busybox cat /hello; busybox id -u", name, nodeName="node-1", restartPolicy="Never")
    phase(cluster, "own", "Succeeded")
    assert cluster.kubectl("logs", "-n", NAMESPACE, "own") == "hello1000\n"


def test_a_reboot_ends_all_containers_and_empties_the_cdi_folder(cluster: Cluster) -> None:
    node = cluster.node()
    run(cluster, "reboots", "sleep infinity", nodeName=node.name)
    phase(cluster, "reboots", "Running")
    (node.cdi / "left.json").write_text("{}")
    node.reboot()
    assert list(node.cdi.iterdir()) == []
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/reboots"
    until(lambda: bool(cluster.bed.get(path)["status"]["containerStatuses"][0]["restartCount"]))
    phase(cluster, "reboots", "Running")


def test_containers_survive_the_kill_of_a_kubelet(cluster: Cluster) -> None:
    node = cluster.node()
    run(cluster, "stays", "sleep infinity", nodeName=node.name)
    phase(cluster, "stays", "Running")
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/stays"
    before = cluster.bed.get(path)["status"]["containerStatuses"][0]["containerID"]
    node.kill()
    node.start()
    after = cluster.bed.get(path)["status"]["containerStatuses"][0]
    assert (after["containerID"], after["restartCount"]) == (before, 0)
