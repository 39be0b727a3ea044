"""How much of each extended resource the pods on each node take, updated with each pod."""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from dradriver.control.extended import amounts_of
from dradriver.control.scheduler.snapshot import holds
from dradriver.kube import Cache, ChangeKind
from dradriver.model.core.workload import Pod

__all__ = ["NodeUsage"]


class NodeUsage:
    """Sums by node. To count all pods again for each decision would be most of the work in a large cluster.

    As in `NodeResourcesFit`, a pod counts with its full amounts, whether a device plugin or devices serve them.
    """

    def __init__(self, pods: Cache[Pod]) -> None:
        """Follow a cache that has not been entered yet."""
        self._taken: dict[str, Counter[str]] = {}
        pods.subscribe(self._follow)

    def with_pods(self, more: Iterable[tuple[str, Pod]]) -> Mapping[str, Mapping[str, int]]:
        """Return the amounts in use by node, including additional pods (pairs of a node and a pod)."""
        found = {node: Counter(taken) for node, taken in self._taken.items()}
        for node, pod in more:
            if amounts := amounts_of(pod):
                found.setdefault(node, Counter()).update(amounts)
        return MappingProxyType(found)

    def _follow(self, _kind: ChangeKind, old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is not None and old.spec == new.spec and holds(old) == holds(new):
            return
        if old is not None and holds(old) and (amounts := amounts_of(old)):
            taken = self._taken[old.spec.node_name]
            taken.subtract(amounts)
            if not +taken:
                del self._taken[old.spec.node_name]
        if new is not None and holds(new) and (amounts := amounts_of(new)):
            self._taken.setdefault(new.spec.node_name, Counter()).update(amounts)
