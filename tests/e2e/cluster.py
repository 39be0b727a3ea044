"""A whole cluster: a control plane, and real nodes as they are asked for."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e import control_plane
from tests.e2e.bed import Bed, BedError
from tests.e2e.credentials import NODES
from tests.e2e.node import Node
from tests.e2e.programs import program


@dataclass
class Cluster:
    """A control plane with scheduler and controllers.

    Attributes:
        bed: what it runs on.
        gates: the feature gates of all its programs.
    """

    bed: Bed
    gates: Mapping[str, bool]
    _nodes: dict[str, Node] = field(default_factory=dict)

    def kubeconfig(self, user: str = "admin") -> Path:
        """The kubeconfig of one of `credentials.USERS`."""
        return self.bed.credentials.write_kubeconfig(self.bed.url, user)

    def node(self, name: str = NODES[0]) -> Node:
        """One of `credentials.NODES`, started by whoever asks first. Blocking."""
        if name not in self._nodes:
            self._nodes[name] = Node(self.bed, NODES.index(name) + 1, self.gates)
        return self._nodes[name]

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """What kubectl prints, as admin. Blocking.

        Raises:
            BedError: it failed; with what it said.
        """
        command = (str(program("kubectl")), f"--kubeconfig={self.kubeconfig()}",
                   f"--cache-dir={self.bed.folder / 'kubectl'}", *arguments)  # fmt: skip
        done = subprocess.run(command, input=stdin, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise BedError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout


@contextmanager
def start_cluster(
    gates: Mapping[str, bool] = control_plane.ALL_GATES,
    *,
    emulated_version: str = "",
    without: Sequence[str] = (),
) -> Iterator[Cluster]:
    """A cluster of one's own, without some controllers; nodes come when they are asked for."""
    with Bed() as bed:
        control_plane.start(bed, gates, emulated_version=emulated_version, scheduling=True, without=without)
        yield Cluster(bed, gates)
