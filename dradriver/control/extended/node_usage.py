"""Sum up how much of each extended resource the pods on each node request."""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dradriver.control.extended.requests import requested_amounts
from dradriver.model.core.workload import Pod

__all__ = ["NodeUsage"]

_NONE: Final[Mapping[str, int]] = MappingProxyType({})


class NodeUsage:
    """The requested amounts by node, updated when a pod changes.

    In a large cluster, counting all pods again would be most of the work of a decision.

    As in `NodeResourcesFit`, all amounts of a pod count, whether a device plugin or devices serve them.
    """

    def __init__(self) -> None:
        self._requested: dict[str, Counter[str]] = {}

    def on_node(self, node: str) -> Mapping[str, int]:
        """Return the requested amounts on a node, by resource name."""
        return self._requested.get(node, _NONE)

    def add(self, pod: Pod, node: str) -> None:
        """Add the amounts of a pod that runs, or will run, on a node."""
        if amounts := requested_amounts(pod):
            self._requested.setdefault(node, Counter()).update(amounts)

    def remove(self, pod: Pod, node: str) -> None:
        """Subtract the amounts of a pod that was added."""
        if amounts := requested_amounts(pod):
            requested = self._requested[node]
            requested.subtract(amounts)
            if not +requested:
                del self._requested[node]
