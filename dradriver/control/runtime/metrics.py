"""The metrics of the controllers, in their own Prometheus registry, with Kubernetes' names.

KEP-5007 defines the duration of PreBind. Kubernetes 1.37 measures the wait in PreBind instead, by driver
(`..._wait_duration_seconds`). Both are served. A label never names a pod or a claim.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from dradriver.control.queueing.metrics import Gauges, QueueMetrics
from dradriver.model.resource.claim import EXTENDED_CLAIM_ANNOTATION, POD_CLAIM_ANNOTATION, ResourceClaim

__all__ = ["ControlMetrics", "asks_for_admin_access"]

_WAITS: Final = tuple(0.1 * 2**power for power in range(14))
"""kube-scheduler's buckets (`ExponentialBuckets(0.1, 2, 14)`)."""
_EVICTIONS: Final = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)
"""kube-controller-manager's buckets."""
_STEPS: Final = tuple(0.0001 * 2**power for power in range(12))


class ControlMetrics:
    """The metrics of scheduler and controllers.

    Attributes:
        registry: the registry to expose.
        queues: the metrics of the work queues.
    """

    def __init__(self, profile: str = "default-scheduler") -> None:
        self.registry = CollectorRegistry()
        self.queues = QueueMetrics(self.registry)
        self._profile = profile
        self._allocations = self._counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Allocated devices with binding conditions, by what became of the attempt to bind their pod.",
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
            "Seconds in which binding conditions were waited for, by driver of devices that have some.",
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
            "resourceclaim_controller_creates_total", "Claims made from templates.", "status", "admin_access"
        )
        self._undecided = self._counter(
            "dradriver_scheduler_undecided_total",
            "Attempts to schedule a pod in which the allocator gave up: it may fit all the same.",
        )
        self._evictions = self._counter(
            "device_taint_eviction_controller_pod_deletions_total",
            "Pods that were deleted because of taints of their devices.",
        )
        self._eviction_seconds = self._histogram(
            "device_taint_eviction_controller_pod_deletion_duration_seconds",
            "Seconds from when a pod had to go because of a taint until it was deleted.",
            buckets=_EVICTIONS,
        )

        self._created_special = self._counter(
            "scheduler_resourceclaim_creates_total",
            "Claims made for extended resources.",
            "status",
        )
        self._created_by_owner = self._counter(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            "All claims made for pods, as Kubernetes 1.37 counts them.",
            *("status", "admin_access", "owner_api_group", "owner_api_kind"),
        )

    def _counter(self, name: str, told: str, *labels: str) -> Counter:
        return Counter(name, told, labels, registry=self.registry)

    def _histogram(self, name: str, told: str, *labels: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, told, labels, buckets=buckets, registry=self.registry)

    def bound(self, claims: Iterable[ResourceClaim], status: str, seconds: float, waited: float | None) -> None:
        """Record the end of an attempt to bind a pod with claims.

        Args:
            claims: its claims; none where their conditions are not evaluated.
            status: success, failure, timeout or error; error also where the pod was deleted meanwhile.
            seconds: the duration of PreBind.
            waited: how long binding conditions were waited for; None if the wait never began.
        """
        drivers = [r.driver for claim in claims for r in claim.results if r.binding_conditions]
        required = "true" if drivers else "false"
        self._prebind.labels(self._profile, status, required).observe(seconds)
        for driver in drivers:
            self._allocations.labels(self._profile, driver, status).inc()
        if waited is not None:
            for driver in dict.fromkeys(drivers):
                self._wait.labels(self._profile, driver, status).observe(waited)

    def ran(self, point: str, status: str, seconds: float) -> None:
        """Record one run of an extension point for one pod."""
        self._point.labels(point, status, self._profile).observe(seconds)

    def ran_plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Record one run of a plugin at an extension point for one pod.

        A run at Filter covers all nodes that the plugin checked.
        """
        self._plugin.labels(plugin, point, status).observe(seconds)

    def gave_up(self) -> None:
        """Count a pod for which the allocator gave up on a node, and that no other node suits."""
        self._undecided.inc()

    def scheduled(self, attempts: int, seconds: float) -> None:
        """Record a pod that was bound."""
        self._sli.labels(str(min(attempts, 15))).observe(seconds)

    def created(self, status: str, *, admin_access: bool) -> None:
        """Count a request to create a claim."""
        admin = str(admin_access).lower()
        self._created.labels(status, admin).inc()
        self._created_by_owner.labels(status, admin, "", "Pod").inc()

    def created_special(self, status: str) -> None:
        """Count a request to create a claim for extended resources."""
        self._created_special.labels(status).inc()
        self._created_by_owner.labels(status, "false", "", "Pod").inc()

    def evicted(self, seconds: float) -> None:
        """Record a pod that was deleted because of a taint, `seconds` after its eviction was due."""
        self._evictions.inc()
        self._eviction_seconds.observe(seconds)

    def show_pending(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Call `read` for the number of pods in each queue whenever the metrics are read."""
        told = "Pods without a node, by queue: active, backoff, unschedulable, gated; waiting: for conditions."
        self.registry.register(
            Gauges("scheduler_pending_pods", told, ["queue"], lambda: {(k,): n for k, n in read().items()})
        )

    def show_broken_pools(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Call `read` for the pools that no claim can use whenever the metrics are read."""
        told = "Pools that no claim can use, for some time: slices are missing, or they break a rule."
        self.registry.register(
            Gauges("dradriver_broken_pools", told, ["problem"], lambda: {(k,): n for k, n in read().items()})
        )

    def show_claims(self, claims: Callable[[], Iterable[ResourceClaim]]) -> None:
        """Count the claims whenever the metrics are read."""
        told = "ResourceClaims, by whether they are allocated, ask for admin access, and what made them."
        labels = ["allocated", "admin_access", "source"]
        # The KEPs' name and Kubernetes 1.37's name.
        for name in ("resourceclaim_controller_resource_claims", "dynamic_resource_allocation_resource_claims"):
            self.registry.register(Gauges(name, told, labels, lambda: Tally(map(_kind, list(claims())))))


def asks_for_admin_access(claim: ResourceClaim) -> bool:
    """Return whether a request of the claim is for admin access."""
    return any(r.exactly is not None and r.exactly.admin_access for r in claim.spec.devices.requests)


def _kind(claim: ResourceClaim) -> tuple[str, str, str]:
    annotations = claim.metadata.annotations
    source = "resource_claim_template" if POD_CLAIM_ANNOTATION in annotations else ""
    if annotations.get(EXTENDED_CLAIM_ANNOTATION) == "true":
        source = "extended_resource"
    return (
        str(claim.allocation is not None).lower(),
        str(asks_for_admin_access(claim)).lower(),
        source,
    )
