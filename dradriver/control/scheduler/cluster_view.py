"""Makes the snapshot that a decision reads, from the caches and the plans in flight."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from dradriver.control.extended import ClassesByResource, amounts_of, owners_of
from dradriver.control.extended.node_usage import NodeUsage
from dradriver.control.pools.pool_index import PoolIndex
from dradriver.control.runtime.caches import Caches, Index
from dradriver.control.scheduler.binding_conditions import BindingDeadline
from dradriver.control.scheduler.snapshot import Plan, Snapshot, holds
from dradriver.control.settings import SchedulerSettings
from dradriver.model.core.workload import Node, Pod

__all__ = ["ClusterView"]

_DISTANCE: Final = "wants distance"
"""The trait of pods with anti-affinity."""


class ClusterView:
    """Indexes over the caches, from which each snapshot is made. Takes no decisions.

    Attributes:
        keeps_distance: whether some pod has anti-affinity.
    """

    def __init__(self, caches: Caches, pools: PoolIndex, settings: SchedulerSettings) -> None:
        """Create a view of caches that have not been entered yet."""
        self._caches = caches
        self._pools = pools
        self._settings = settings
        self._running = Index(caches.pods, _place)
        self._apart = Index(caches.pods, _wants_distance)
        self._special = Index(caches.claims, owners_of)
        self._usage = NodeUsage(caches.pods)
        self._classes_by_resource = ClassesByResource()
        caches.classes.subscribe(lambda *_: self._classes_changed())

    @property
    def keeps_distance(self) -> bool:
        """Return whether some pod has anti-affinity."""
        return bool(self._apart.of(_DISTANCE))

    def of(
        self, pod: Pod, plans: Mapping[str, Plan], patience: BindingDeadline
    ) -> tuple[Snapshot, Sequence[Plan]]:
        """Return a snapshot of the cluster for a pod, without the devices in use, and the plans.

        Args:
            pod: the pod that is being scheduled.
            plans: the plans in flight by their pods, `namespace/name`.
            patience: how long binding conditions are waited for.
        """
        made = list(plans.values())
        planned = self._planned(plans)
        nodes = list(self._caches.nodes.items.values())
        settings = self._settings
        extended = settings.features.extended_resources
        snapshot = Snapshot(
            nodes=nodes,
            claims=dict(self._caches.claims.items),
            classes=dict(self._caches.classes.items),
            inventory=self._pools.inventory,
            in_flight={uid for plan in made for uid in plan.allocations},
            pods_on=self._pods_on(made),
            pods=self._neighbors(nodes, planned) if pod.kept_apart_from or self.keeps_distance else {},
            features=settings.features,
            max_steps=settings.max_steps,
            order=settings.order,
            now=datetime.now(UTC).replace(microsecond=0),
            patience=patience,
            ready=self._pools.ready,
            classes_by_resource=self._classes_by_resource,
            taken=self._usage.with_pods(planned) if amounts_of(pod) else {},
            special=list(self._special.of(pod.metadata.uid)) if extended else (),
            scoring=settings.scoring,
        )
        return snapshot, made

    def _planned(self, plans: Mapping[str, Plan]) -> list[tuple[str, Pod]]:
        """Return the pods of the plans, each with the name of its node."""
        pods = ((plan.node, self._caches.pods.items.get(key)) for key, plan in plans.items())
        return [(node, pod) for node, pod in pods if pod is not None and not pod.spec.node_name]

    def _pods_on(self, plans: Sequence[Plan]) -> Mapping[str, int]:
        counts = self._running.sizes()
        for plan in plans:
            counts[plan.node] = counts.get(plan.node, 0) + 1
        return MappingProxyType(counts)

    def _neighbors(self, nodes: list[Node], planned: list[tuple[str, Pod]]) -> Mapping[str, Sequence[Pod]]:
        found = {node.metadata.name: list(self._running.of(node.metadata.name)) for node in nodes}
        for node_name, pod in planned:
            found.setdefault(node_name, []).append(pod)
        return found

    def _classes_changed(self) -> None:
        if self._settings.features.extended_resources:
            self._classes_by_resource = ClassesByResource.of(self._caches.classes.items.values())


def _wants_distance(pod: Pod) -> tuple[str, ...]:
    return (_DISTANCE,) if pod.kept_apart_from else ()


def _place(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if holds(pod) else ()
