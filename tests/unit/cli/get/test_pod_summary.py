"""READY and STATUS of a pod, case by case as `printPod` of Kubernetes 1.37 prints them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from dradriver.cli.get.pod_summary import pod_summary
from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import from_builtins


def running(*, ready: bool = True) -> dict[str, Any]:
    return {"name": "c", "ready": ready, "state": {"running": {}}, "started": True}


def waiting(reason: str) -> dict[str, Any]:
    return {"name": "c", "ready": False, "state": {"waiting": {"reason": reason}}}


def ended(code: int = 0, reason: str = "", signal: int = 0) -> dict[str, Any]:
    return {
        "name": "c",
        "ready": False,
        "state": {"terminated": {"exitCode": code, "reason": reason, "signal": signal}},
    }


def pod(phase: str, *containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **more: Any) -> Pod:
    sidecars = more.pop("sidecars", ())
    spec = {
        "containers": [{"name": f"c{n}"} for n in range(max(1, len(containers)))],
        "initContainers": [
            {"name": f"i{n}", "restartPolicy": "Always" if n in sidecars else ""} for n in range(len(init))
        ],
    }
    status = {
        "phase": phase,
        "containerStatuses": list(containers),
        "initContainerStatuses": [each | {"name": f"i{n}"} for n, each in enumerate(init)],
        **more,
    }
    return from_builtins(
        Pod, {"metadata": {"name": "pod", "namespace": "default"}, "spec": spec, "status": status}
    )


READY = [{"type": "Ready", "status": "True"}]
INITIALIZED = [{"type": "Initialized", "status": "True"}]
GATED = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]

CASES: dict[str, tuple[Pod, str, str]] = {
    "waits for a node": (pod("Pending"), "0/1", "Pending"),
    "is held back by a gate": (pod("Pending", conditions=GATED), "0/1", "SchedulingGated"),
    "waits for its claims": (pod("Pending", waiting("ContainerCreating")), "0/1", "ContainerCreating"),
    "runs": (pod("Running", running()), "1/1", "Running"),
    "runs and is not ready": (pod("Running", running(ready=False)), "0/1", "Running"),
    "fails again and again": (pod("Running", waiting("CrashLoopBackOff")), "0/1", "CrashLoopBackOff"),
    "has no image": (pod("Pending", waiting("ImagePullBackOff")), "0/1", "ImagePullBackOff"),
    "half of it fails": (pod("Running", running(), waiting("CrashLoopBackOff")), "1/2", "CrashLoopBackOff"),
    "the first container has precedence": (pod("Running", waiting("One"), waiting("Two")), "0/2", "One"),
    "has failed": (pod("Failed", ended(1, "Error")), "0/1", "Error"),
    "has failed without a reason": (pod("Failed", ended(3)), "0/1", "ExitCode:3"),
    "was killed": (pod("Failed", ended(137, signal=9)), "0/1", "Signal:9"),
    "is done": (pod("Succeeded", ended(0, "Completed")), "0/1", "Completed"),
    "is done but for one": (
        pod("Running", ended(0, "Completed"), running(), conditions=READY),
        "1/2",
        "Running",
    ),
    "is not ready but for one": (pod("Running", ended(0, "Completed"), running()), "1/2", "NotReady"),
    "is done, one has failed": (pod("Failed", ended(0, "Completed"), ended(1, "Error")), "0/2", "Error"),
    "was evicted": (pod("Failed", reason="Evicted"), "0/1", "Evicted"),
    "initializes": (pod("Pending", init=(running(ready=False), waiting("PodInitializing"))), "0/1", "Init:0/2"),
    "has done a half": (pod("Pending", init=(ended(), waiting("PodInitializing"))), "0/1", "Init:1/2"),
    "does not initialize": (
        pod("Pending", init=(waiting("CrashLoopBackOff"),)),
        "0/1",
        "Init:CrashLoopBackOff",
    ),
    "has not initialized": (pod("Failed", init=(ended(1, "Error"),)), "0/1", "Init:Error"),
    "was killed initializing": (pod("Failed", init=(ended(137, signal=9),)), "0/1", "Init:Signal:9"),
    "has ended initializing": (pod("Failed", init=(ended(2),)), "0/1", "Init:ExitCode:2"),
    "has initialized": (pod("Running", running(), init=(ended(),)), "1/1", "Running"),
    "has a sidecar": (pod("Running", running(), init=(running(),), sidecars=(0,)), "2/2", "Running"),
    "starts a sidecar": (
        pod("Pending", waiting("PodInitializing"), init=(waiting("PodInitializing"),), sidecars=(0,)),
        "0/2",
        "Init:0/1",
    ),
    "restarts a sidecar": (
        pod("Running", running(), init=(waiting("CrashLoopBackOff"),), sidecars=(0,), conditions=INITIALIZED),
        "1/2",
        "Init:CrashLoopBackOff",
    ),
}


@pytest.mark.parametrize(("given", "ready", "status"), CASES.values(), ids=CASES)
def test_a_pod_that(given: Pod, ready: str, status: str) -> None:
    assert pod_summary(given) == (ready, status)


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (pod("Running", running()), "Terminating"),
        (pod("Running", running(), reason="NodeLost"), "Unknown"),
        (pod("Succeeded", ended(0, "Completed")), "Completed"),
    ],
)
def test_a_pod_that_is_deleted(given: Pod, status: str) -> None:
    meta = replace(given.metadata, deletion_timestamp=datetime.now(UTC))
    assert pod_summary(replace(given, metadata=meta)).status == status
