"""The metrics of the controllers, in a Prometheus registry of their own, with the names that Kubernetes uses.

KEP-5007 defines a metric of the duration of PreBind. Kubernetes 1.37 has a metric of the wait in PreBind
instead, by driver (`..._wait_duration_seconds`). This module has both metrics. Pods and claims are never
labels.
"""

import collections
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from dradriver.control.queueing.metrics import Gauges, WorkQueueMetrics
from dradriver.model.resource.claim import EXTENDED_CLAIM_ANNOTATION, POD_CLAIM_ANNOTATION, ResourceClaim

__all__ = ["ControlMetrics", "has_admin_access"]

_WAITS: Final = tuple(0.1 * 2**power for power in range(14))
"""kube-scheduler's buckets (`ExponentialBuckets(0.1, 2, 14)`)."""
_EVICTIONS: Final = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)
"""kube-controller-manager's buckets."""
_STEPS: Final = tuple(0.0001 * 2**power for power in range(12))


class ControlMetrics:
    """The metrics of scheduler and controllers.

    Attributes:
        registry: the registry with all metrics.
        queues: the metrics of the work queues.
    """

    def __init__(self, profile: str = "default-scheduler") -> None:
        self.registry = CollectorRegistry()
        self.queues = WorkQueueMetrics(self.registry)
        self._profile = profile
        self._allocations = self._counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Allocated devices with binding conditions, by the result of the attempt to bind their pod.",
            *("profile", "driver", "status"),
        )
        self._prebind = self._histogram(
            "scheduler_dra_bindingconditions_prebind_duration_seconds",
            "Seconds of PreBind for pods with claims: from the plan until the pod can be bound, or that fails.",
            *("profile", "status", "requires_bindingconditions"),
            buckets=_WAITS,
        )
        self._wait = self._histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "Seconds of waits for binding conditions, by driver of the devices that have some.",
            *("profile", "driver", "status"),
            buckets=_WAITS,
        )
        self._plugin = self._histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Seconds to run a plugin at an extension point.",
            *("plugin", "extension_point", "status"),
            buckets=_STEPS,
        )
        self._point = self._histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Seconds to run all plugins of an extension point.",
            *("extension_point", "status", "profile"),
            buckets=_STEPS,
        )
        self._sli = self._histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Seconds from when a pod was first seen until it was bound.",
            "attempts",
            buckets=tuple(0.01 * 2**power for power in range(20)),
        )
        self._created = self._counter(
            "resourceclaim_controller_creates_total", "Claims created from templates.", "status", "admin_access"
        )
        self._undecided = self._counter(
            "dradriver_scheduler_undecided_total",
            "Attempts to schedule a pod in which the allocator gave up. The pod may still fit.",
        )
        self._evictions = self._counter(
            "device_taint_eviction_controller_pod_deletions_total",
            "Pods that were deleted because of taints of their devices.",
        )
        self._eviction_seconds = self._histogram(
            "device_taint_eviction_controller_pod_deletion_duration_seconds",
            "Seconds from the due time of an eviction until the pod was deleted.",
            buckets=_EVICTIONS,
        )

        self._preemptions = self._counter(
            "scheduler_preemption_attempts_total", "Attempts to find victims for a pod without a node."
        )
        self._victims = self._histogram(
            "scheduler_preemption_victims",
            "Victims of a preemption.",
            buckets=tuple(2.0**power for power in range(7)),
        )
        self._created_special = self._counter(
            "scheduler_resourceclaim_creates_total", "Claims created for extended resources.", "status"
        )
        self._created_by_owner = self._counter(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            "All claims created for pods, as Kubernetes 1.37 counts them.",
            *("status", "admin_access", "owner_api_group", "owner_api_kind"),
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

    def record_binding(
        self, claims: Iterable[ResourceClaim], status: str, seconds: float, waited: float | None
    ) -> None:
        """Record that an attempt to bind a pod with claims has ended.

        Args:
            claims: the pod's claims. Empty if binding conditions are not evaluated.
            status: success, failure, timeout or error. It is error, too, if the pod was deleted in the
                meantime.
            seconds: the duration of PreBind.
            waited: the duration of the wait for binding conditions. None if there was no wait.
        """
        drivers = [r.driver for claim in claims for r in claim.results if r.binding_conditions]
        required = "true" if drivers else "false"
        self._prebind.labels(self._profile, status, required).observe(seconds)
        for driver in drivers:
            self._allocations.labels(self._profile, driver, status).inc()
        if waited is not None:
            for driver in dict.fromkeys(drivers):
                self._wait.labels(self._profile, driver, status).observe(waited)

    def record_point(self, point: str, status: str, seconds: float) -> None:
        """Record one run of an extension point for one pod."""
        self._point.labels(point, status, self._profile).observe(seconds)

    def record_plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Record one run of a plugin at an extension point for one pod.

        One run at Filter includes all nodes that the plugin checked for the pod.
        """
        self._plugin.labels(plugin, point, status).observe(seconds)

    def count_undecided(self) -> None:
        """Count a pod without a suitable node for which the allocator gave up on at least one node."""
        self._undecided.inc()

    def record_scheduled(self, attempts: int, seconds: float) -> None:
        """Record a pod that was bound."""
        self._sli.labels(str(min(attempts, 15))).observe(seconds)

    def count_claim(self, status: str, *, admin_access: bool) -> None:
        """Count a request to create a claim."""
        admin = str(admin_access).lower()
        self._created.labels(status, admin).inc()
        self._created_by_owner.labels(status, admin, "", "Pod").inc()

    def count_special_claim(self, status: str) -> None:
        """Count a request to create a claim for extended resources."""
        self._created_special.labels(status).inc()
        self._created_by_owner.labels(status, "false", "", "Pod").inc()

    def record_preemption(self, victims: int) -> None:
        """Record an attempt to find victims for a pod; `victims` is 0 if none were selected."""
        self._preemptions.inc()
        if victims:
            self._victims.observe(victims)

    def record_eviction(self, seconds: float) -> None:
        """Record a pod that was deleted because of a taint, `seconds` after its eviction was due."""
        self._evictions.inc()
        self._eviction_seconds.observe(seconds)

    def show_pending(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Show the number of pods in each queue, which `read` returns each time the metrics are read."""
        text = "Pods without a node, by queue: active, backoff, unschedulable, gated, waiting (for conditions)."
        self.registry.register(
            Gauges("scheduler_pending_pods", text, ["queue"], lambda: {(k,): n for k, n in read().items()})
        )

    def show_broken_pools(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Show the number of broken pools, which `read` returns each time the metrics are read."""
        text = "Pools that no claim can use for some time: slices are missing, or they break a rule."
        self.registry.register(
            Gauges("dradriver_broken_pools", text, ["problem"], lambda: {(k,): n for k, n in read().items()})
        )

    def show_contested_pools(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Show the number of contested pools by driver, which `read` returns each time the metrics are read."""
        text = "Pools from which another allocator allocates devices too, so that this scheduler does not."
        name = "dradriver_scheduler_shared_pools"
        self.registry.register(Gauges(name, text, ["driver"], lambda: {(k,): n for k, n in read().items()}))

    def show_claims(self, claims: Callable[[], Iterable[ResourceClaim]]) -> None:
        """Show the number of claims, which are counted each time the metrics are read."""
        text = "ResourceClaims, by allocation, admin access, and source (a template, extended resources)."
        labels = ["allocated", "admin_access", "source"]
        # The first name is from the KEPs, the second from Kubernetes 1.37.
        for name in ("resourceclaim_controller_resource_claims", "dynamic_resource_allocation_resource_claims"):
            self.registry.register(
                Gauges(name, text, labels, lambda: collections.Counter(map(_claim_labels, list(claims()))))
            )


def has_admin_access(claim: ResourceClaim) -> bool:
    """Return whether a request of the claim asks for admin access."""
    return any(r.exactly is not None and r.exactly.admin_access for r in claim.spec.devices.requests)


def _claim_labels(claim: ResourceClaim) -> tuple[str, str, str]:
    annotations = claim.metadata.annotations
    source = "resource_claim_template" if POD_CLAIM_ANNOTATION in annotations else ""
    if annotations.get(EXTENDED_CLAIM_ANNOTATION) == "true":
        source = "extended_resource"
    return (str(claim.allocation is not None).lower(), str(has_admin_access(claim)).lower(), source)
