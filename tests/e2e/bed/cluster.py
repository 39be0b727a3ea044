"""A cluster: a control plane, and real nodes that start on demand."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.bed import control_plane
from tests.e2e.bed.bed import Bed
from tests.e2e.bed.credentials import NODES
from tests.e2e.bed.nodes.node import Node


@dataclass
class Cluster:
    """A control plane with scheduler and controllers.

    Attributes:
        bed: the bed of its processes.
        gates: the feature gates of all its programs.
    """

    bed: Bed
    gates: Mapping[str, bool]
    _nodes: dict[str, Node] = field(default_factory=dict)

    def kubeconfig(self, user: str = "admin") -> Path:
        """Return the kubeconfig of one of `credentials.USERS`."""
        return self.bed.credentials.write_kubeconfig(self.bed.url, user)

    def node(self, name: str = NODES[0]) -> Node:
        """Return one of `credentials.NODES`; the first call starts it. Blocking."""
        if name not in self._nodes:
            self._nodes[name] = Node(self.bed, NODES.index(name) + 1, self.gates)
        return self._nodes[name]

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl as admin and return its output, by `Bed.kubectl`. Blocking."""
        return self.bed.kubectl(*arguments, stdin=stdin)


@contextmanager
def start_cluster(
    gates: Mapping[str, bool] = control_plane.ALL_GATES,
    *,
    emulated_version: str = "",
    without: Sequence[str] = (),
) -> Iterator[Cluster]:
    """Start a cluster for one test, without some controllers; nodes start on demand."""
    with Bed() as bed:
        control_plane.start(bed, gates, emulated_version=emulated_version, scheduling=True, without=without)
        yield Cluster(bed, gates)
