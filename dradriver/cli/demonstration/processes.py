"""The driver processes of a demonstration."""

from dataclasses import replace
from typing import TYPE_CHECKING

from dradriver.cli.demonstration.shows import Show
from dradriver.cli.embedded_cluster import driver_processes
from dradriver.cli.supervision import DriverProcess

if TYPE_CHECKING:
    from dradriver.cluster import EmbeddedCluster

__all__ = ["driver_processes_of"]


def driver_processes_of(cluster: "EmbeddedCluster", show: Show) -> list[DriverProcess]:
    """Return the processes of a driver: on as many nodes as the show needs, and its pool driver.

    Args:
        cluster: the running cluster.
        show: the demonstration of the driver.
    """
    nodes = set(sorted(cluster.nodes)[: show.nodes])
    return [
        replace(process, simulate=show.simulate)
        for process in driver_processes(cluster, show.entries)
        if not process.node or process.node in nodes
    ]
