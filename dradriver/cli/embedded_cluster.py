"""Parts that `up` and `demo` share: `--runtime`, driver processes, and settings of the cluster's process."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from dradriver.cli.supervision import DriverProcess
from dradriver.driver import Driver
from dradriver.driver.driver_class import read_name
from dradriver.runner import load_any

if TYPE_CHECKING:
    from dradriver.cluster import EmbeddedCluster

__all__ = ["driver_processes", "runtime_option", "simulation_folder"]

F = TypeVar("F", bound=Callable[..., object])


def runtime_option(command: F) -> F:
    """Add the option `--runtime`.

    Args:
        command: the command. It gets the argument `runtime`; None if the option is not given.

    Returns:
        The command with the option.
    """
    option = click.option(
        "--runtime",
        type=click.Choice(("podman", "runc", "process")),
        help="Container runtime; process runs the commands without containers.  "
        "[default: the first one that works on this machine]",
    )
    return option(command)


def simulation_folder(cluster: "EmbeddedCluster") -> Path:
    """Return the folder for simulated hardware that the processes of several nodes share.

    Args:
        cluster: the cluster.
    """
    return cluster.directory / "simulation"


def driver_processes(cluster: "EmbeddedCluster", drivers: Sequence[str]) -> list[DriverProcess]:
    """Return a process for each driver and node, with the folders and identity of the node.

    Args:
        cluster: the running cluster.
        drivers: names by which `dradriver run` finds the drivers.

    Returns:
        The processes in the order of the drivers. A pool driver or controller driver has one process, with the
        administrator's identity.

    Raises:
        DraError: a driver is not installed or cannot be imported.
    """
    processes: list[DriverProcess] = []
    environment = {"DRADRIVER_SIMULATION_DIR": str(simulation_folder(cluster))}
    for driver in drivers:
        kind = load_any(driver)
        if not issubclass(kind, Driver):
            processes.append(
                DriverProcess(driver, "", cluster.kubeconfig_path, cluster.directory, environment=environment)
            )
            continue
        processes += (
            DriverProcess(
                *(driver, node, cluster.node_kubeconfig(node), cluster.node_dir(node)),
                name=read_name(kind),
                environment=environment,
            )
            for node in cluster.nodes
        )
    return processes
