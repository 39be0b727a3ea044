"""The configuration of a kube-scheduler that uses this extender.

Source: `k8s.io/kube-scheduler/config/v1`, and `k8s.io/component-base/config/v1alpha1`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import Any, Final

from dradriver.errors import UsageError
from dradriver.extender.addresses import check_address
from dradriver.model.core.lease import LeaseTiming

__all__ = ["BINDING_MARGIN", "SCHEDULER_LEASE", "KubeSchedulerSettings", "build_config", "check_names"]

DECISION_TIMEOUT: Final = timedelta(seconds=5)
"""Time limit of `filter`, `prioritize` and `preempt`. kube-scheduler decides on one pod at a time."""

BINDING_MARGIN: Final = timedelta(seconds=30)
"""Time for the writes of `bind` besides the wait for binding conditions."""

SCHEDULER_LEASE: Final = LeaseTiming(9)
"""The Leases of kube-scheduler and of the extender; docs/scheduler.md derives the time of a takeover."""

_PACKED_WEIGHT: Final = 1000
"""The weight of the extender's scores, if the devices decide on the node.

The smallest difference between two scores is then worth 10,000. All default plugins together are worth 1,200.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSchedulerSettings:
    """The settings of a kube-scheduler.

    Attributes:
        url: the address of the extender: `http://127.0.0.1:PORT` or `https://HOST:PORT`.
        scheduler_names: the names of the profiles (`spec.schedulerName` of pods).
        prefers_devices: whether the extender's scores outweigh all other scores.
        binding_timeout: the longest wait of a pod for the binding conditions of its devices.
        ca_file: the certificates of the authorities of the extender, in the file system of kube-scheduler.
        cert_file, key_file: the client certificate of kube-scheduler and its private key.
        kubeconfig: the kubeconfig of kube-scheduler; empty: its service account.
        leader_elect: whether only one of several kube-schedulers is active.
        lease_name, lease_namespace: the Lease of kube-scheduler.
        timing: the durations of this Lease.
        qps, burst: the limits for requests to the API server.
    """

    url: str
    scheduler_names: Sequence[str] = ("dradriver",)
    prefers_devices: bool = False
    binding_timeout: timedelta = timedelta(seconds=600)
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    kubeconfig: str = ""
    leader_elect: bool = True
    lease_name: str = "dradriver-kube-scheduler"
    lease_namespace: str = "kube-system"
    timing: LeaseTiming = SCHEDULER_LEASE
    qps: int = 500
    burst: int = 1000


def build_config(settings: KubeSchedulerSettings) -> dict[str, Any]:
    """Return a KubeSchedulerConfiguration.

    Raises:
        UsageError: the settings contradict each other. The message names the option.
    """
    check_names(settings.scheduler_names)
    check_address("--url", settings.url, (settings.ca_file, settings.cert_file, settings.key_file))
    timing = settings.timing
    connection: dict[str, Any] = {"qps": settings.qps, "burst": settings.burst}
    if settings.kubeconfig:
        connection["kubeconfig"] = settings.kubeconfig
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": connection,
        "leaderElection": {
            "leaderElect": settings.leader_elect,
            "leaseDuration": _duration(timing.duration),
            "renewDeadline": _duration(timing.renew_deadline),
            "retryPeriod": _duration(timing.retry_period),
            "resourceLock": "leases",
            "resourceName": settings.lease_name,
            "resourceNamespace": settings.lease_namespace,
        },
        # Without this, kube-scheduler passes only some of the nodes to the extender.
        "percentageOfNodesToScore": 100,
        "profiles": [
            {"schedulerName": name, "plugins": {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}}
            for name in settings.scheduler_names
        ],
        "extenders": _extenders(settings),
    }


def _extenders(settings: KubeSchedulerSettings) -> list[dict[str, Any]]:
    """Return two entries, because an entry has one time limit for all of its verbs."""
    decisions = {
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": _PACKED_WEIGHT if settings.prefers_devices else 1,
        "httpTimeout": _duration(DECISION_TIMEOUT.total_seconds()),
    }
    binding_seconds = (settings.binding_timeout + BINDING_MARGIN).total_seconds()
    binding = {"bindVerb": "bind", "httpTimeout": _duration(ceil(binding_seconds))}
    return [{**_target(settings), **decisions}, {**_target(settings), **binding}]


def _target(settings: KubeSchedulerSettings) -> dict[str, Any]:
    """Return the fields that both entries have."""
    url = settings.url.rstrip("/")
    target: dict[str, Any] = {"urlPrefix": url, "nodeCacheCapable": True, "ignorable": False}
    if settings.ca_file:
        # Without a CA, kube-scheduler would not verify the extender's certificate.
        target["enableHTTPS"] = True
        target["tlsConfig"] = {
            "caFile": settings.ca_file,
            "certFile": settings.cert_file,
            "keyFile": settings.key_file,
        }
    return target


def _duration(seconds: float) -> str:
    """Return a duration as Go reads it."""
    return f"{seconds:g}s" if seconds < 1e5 else f"{seconds:.0f}s"


def check_names(names: Sequence[str]) -> None:
    """Check the names of the profiles.

    Raises:
        UsageError: a name is empty or occurs twice.
    """
    for name in names:
        if not name:
            raise UsageError("--scheduler-name: must not be empty")
        if names.count(name) > 1:
            raise UsageError(f"--scheduler-name {name}: is given twice")
