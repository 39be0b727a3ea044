"""Metrics of scheduler and controllers, with Kubernetes' names."""

import asyncio
import re
from pathlib import Path

from prometheus_client.exposition import generate_latest

from dradriver.cluster import EmbeddedCluster
from dradriver.control.controllers import Controllers
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import CLAIMS
from dradriver.runner.endpoints import Endpoints
from dradriver.testing import builders
from tests.unit.control.conftest import Lab

LAST = "scheduler_pod_scheduling_sli_duration_seconds_count"
NAMES = {
    "scheduler_pending_pods": {"queue"},
    "scheduler_plugin_execution_duration_seconds_count": {"plugin", "extension_point", "status"},
    "scheduler_framework_extension_point_duration_seconds_count": {"extension_point", "status", "profile"},
    LAST: {"attempts"},
    "resourceclaim_controller_resource_claims": {"allocated", "admin_access", "source"},
    "resourceclaim_controller_creates_total": {"status", "admin_access"},
    "workqueue_depth": {"name"},
    "workqueue_adds_total": {"name"},
    "workqueue_unfinished_work_seconds": {"name"},
    "workqueue_longest_running_processor_seconds": {"name"},
    "workqueue_queue_duration_seconds_count": {"name"},
    "workqueue_work_duration_seconds_count": {"name"},
}


async def test_names_and_labels_are_those_of_kubernetes(lab: Lab) -> None:
    async with Controllers(lab.client) as running:
        await lab.pods(builders.pod(templates=["template"]))
        # The scheduler records its last metric after the answer to the binding, which the watch may overtake.
        while f"{LAST}{{" not in (exposed := generate_latest(running.metrics.registry).decode()):
            await asyncio.sleep(0.01)
    for name, labels in NAMES.items():
        found = re.search(rf"^{name}{{(.*)}}", exposed, re.MULTILINE)
        assert found, name
        assert set(re.findall(r"(\w+)=", found[1])) == labels
    assert 'workqueue_adds_total{name="resource_claim"}' in exposed


async def test_undecided_attempts_are_counted(lab: Lab) -> None:
    requests = [
        builders.device_request(builders.CLASS, "device.driver != ''", name=name)
        for name in ("first", "second")
    ]
    await lab.client.create(CLAIMS, builders.claim(*requests), "default", into=dict)
    async with Controllers(lab.client, SchedulerSettings(budget=10, pod_backoff=(3600, 3600))) as running:
        await lab.pods(builders.pod("claim-1"))
        await lab.until(lambda pods, _: any(pod.status.conditions for pod in pods.values()))
    (condition,) = lab.seen.pods.items["default/pod-1"].status.conditions
    assert condition.reason == "AllocationUndecided", condition.message
    assert "cannot decide within 0.01 ms of work" in condition.message
    assert running.metrics.registry.get_sample_value("dradriver_scheduler_undecided_total") == 1


async def test_metrics_are_served_on_a_port(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path, nodes=0) as cluster, Endpoints(cluster, "127.0.0.1", 0) as endpoints:
        answer = await endpoints._answer("GET /metrics HTTP/1.1\r\n\r\n")
        assert b"scheduler_pending_pods" in answer.body
        assert (await endpoints._answer("GET /readyz HTTP/1.1\r\n\r\n")).status == 200
    assert cluster.readiness


async def test_a_queue_counts_its_keys(lab: Lab) -> None:
    async with Controllers(lab.client) as running:
        await lab.pods(builders.pod(templates=["template"]))
        await lab.until_bound(1)
        value = running.metrics.registry.get_sample_value
        while not value("workqueue_work_duration_seconds_count", {"name": "resource_claim"}):
            await asyncio.sleep(0)
    queue = {"name": "resource_claim"}
    assert value("workqueue_adds_total", queue)
