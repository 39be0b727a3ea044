"""`dradriver up`: runs the embedded cluster until Ctrl-C."""

import asyncio
import signal
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import yaml

from dradriver.allocator import MAX_STEPS, ORDERED, ORDERS
from dradriver.cli.node_folders import default_data
from dradriver.cli.supervisor import DriverProcess, Supervisor
from dradriver.cli.terminal.output import progress_console
from dradriver.control.extended import ScoringStrategy
from dradriver.driver import PoolDriver
from dradriver.driver.named import name_of
from dradriver.errors import DraError, UsageError
from dradriver.kube import CLAIMS
from dradriver.model.resource.claim import ResourceClaim
from dradriver.runner import driver_names, load_any

if TYPE_CHECKING:
    from dradriver.cluster import EmbeddedCluster

__all__ = ["RUNTIMES", "driver_processes", "up"]

RUNTIMES: Final = ("podman", "runc", "process")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The values of the command line."""

    data: Path
    kubeconfig: Path | None
    nodes: int
    drivers: Sequence[str]
    feature_gates: str
    port: int
    runtime: str | None
    metrics_port: int
    binding_timeout: float
    max_steps: int
    order: str
    scoring: ScoringStrategy | None


@click.command(short_help="Run a small cluster for your own kubectl.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for state, credentials and node folders, kept over restarts.  "
    "[default: $XDG_DATA_HOME/dradriver, or ~/.local/share/dradriver]",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the administrator's kubeconfig to this file too.  [default: only DATA/kubeconfig]",
)
@click.option("--nodes", type=click.IntRange(1, 100), default=1, show_default=True, help="Number of nodes.")
@click.option(
    "--driver",
    "drivers",
    multiple=True,
    help="Driver to run on every node, or once if it is a pool driver; may be repeated.",
)
@click.option("--feature-gates", default="", help="Kubernetes feature gates, as A=true,B=false.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port of the API server.  [default: a free one]"
)
@click.option(
    "--runtime", type=click.Choice(RUNTIMES), help="What runs containers.  [default: the first that works here]"
)
@click.option(
    "--binding-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    help="Seconds that a pod waits for binding conditions of its devices.",
)
@click.option(
    "--max-steps",
    type=click.IntRange(min=1),
    default=MAX_STEPS,
    show_default=True,
    help="Tries of a device after which the allocator gives up on a node.",
)
@click.option(
    "--order",
    type=click.Choice(list(ORDERS)),
    default=ORDERED.name,
    show_default=True,
    help="Allocate on a node as Kubernetes would, or so that large partitions stay whole.",
)
@click.option(
    "--scoring",
    metavar="STRATEGY:RESOURCES",
    default="",
    help="Which nodes are better for pods with extended resources, as LeastAllocated:example.com/gpu=1 or "
    "MostAllocated:...  [default: all are equally good]",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Serve metrics of scheduler and controllers on this port of 127.0.0.1.  [default: nowhere]",
)
def up(  # noqa: PLR0913, PLR0917 - one argument an option
    data: Path | None,
    kubeconfig: Path | None,
    nodes: int,
    drivers: tuple[str, ...],
    feature_gates: str,
    port: int,
    runtime: str | None,
    binding_timeout: float,
    max_steps: int,
    order: str,
    scoring: str,
    metrics_port: int,
) -> None:
    """Run a small cluster for your own kubectl, with real devices of this machine.

    An API server, the controllers that claims need, a scheduler, and a kubelet stand-in for each node; for
    laptops and tests, not for production. Runs until Ctrl-C; what was created is there again the next time.
    """
    for name in drivers:
        load_any(name)  # reports a missing driver before anything is started
    wanted = _Wanted(
        data=data or default_data(),
        kubeconfig=kubeconfig,
        nodes=nodes,
        drivers=drivers,
        feature_gates=feature_gates,
        port=port,
        runtime=runtime,
        metrics_port=metrics_port,
        binding_timeout=binding_timeout,
        max_steps=max_steps,
        order=order,
        scoring=ScoringStrategy.parse(scoring) if scoring else None,
    )
    asyncio.run(_up(wanted))


async def _up(wanted: _Wanted) -> None:
    # The embedded cluster and the HTTP endpoints are slow to import.
    from dradriver.cluster import EmbeddedCluster  # noqa: PLC0415
    from dradriver.cluster.apiserver.kinds.gates import FeatureGates  # noqa: PLC0415
    from dradriver.runner.endpoints import Endpoints  # noqa: PLC0415

    gates = FeatureGates.parse(wanted.feature_gates)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    console = progress_console()
    async with AsyncExitStack() as stack:
        with console.status("starting the cluster"):
            cluster = await stack.enter_async_context(
                EmbeddedCluster(
                    wanted.data,
                    nodes=wanted.nodes,
                    port=wanted.port,
                    feature_gates=gates.settings,
                    runtime=wanted.runtime,
                    binding_timeout_seconds=wanted.binding_timeout,
                    max_steps=wanted.max_steps,
                    order=ORDERS[wanted.order],
                    scoring=wanted.scoring,
                )
            )
            await stack.enter_async_context(Endpoints(cluster, "127.0.0.1", wanted.metrics_port))
        if wanted.kubeconfig is not None:
            _copy_kubeconfig(cluster.kubeconfig_path, wanted.kubeconfig)
        processes = driver_processes(cluster, wanted.drivers)
        await stack.enter_async_context(Supervisor(processes, lambda line: click.echo(line, err=True)))
        _tell(cluster, wanted, processes)
        await _tell_missing(cluster, wanted.drivers)
        await stop.wait()
        click.echo("Stopping; containers end, state stays in " + str(wanted.data), err=True)


def driver_processes(cluster: "EmbeddedCluster", drivers: Sequence[str]) -> list[DriverProcess]:
    """Return a process for each driver and node, with the node's folders and identity.

    A pool driver runs once, as administrator.
    """
    processes: list[DriverProcess] = []
    for driver in drivers:
        kind = load_any(driver)
        if issubclass(kind, PoolDriver):
            processes.append(DriverProcess(driver, "", cluster.kubeconfig_path, cluster.directory))
            continue
        processes += (
            DriverProcess(
                driver, node, cluster.node_kubeconfig(node), cluster.node_dir(node), name=name_of(kind)
            )
            for node in cluster.nodes
        )
    return processes


async def _tell_missing(cluster: "EmbeddedCluster", drivers: Sequence[str]) -> None:
    """Warn about drivers of allocated claims that do not run this time."""
    claims = (await cluster.client().list(CLAIMS, into=ResourceClaim)).items
    for line in missing_drivers({result.driver for claim in claims for result in claim.results}, drivers):
        click.echo(line, err=True)


def missing_drivers(used: Iterable[str], drivers: Sequence[str]) -> list[str]:
    """Return a message for each driver (`loop.example.com`) that claims use and that does not run."""
    running = {load_any(name).name for name in drivers}
    missing = sorted(set(used) - running)
    installed = {driver: name for name in driver_names() if (driver := _driver_of(name))} if missing else {}
    return [
        f"Claims hold devices of {driver}, which does not run here: "
        + (f"start with --driver {installed[driver]}" if driver in installed else "it is not installed")
        for driver in missing
    ]


def _driver_of(name: str) -> str:
    try:
        return load_any(name).name
    except DraError:
        return ""  # it is broken, but not requested


def _copy_kubeconfig(source: Path, target: Path) -> None:
    """Write the kubeconfig, but never overwrite the file of another cluster."""
    text = source.read_text()
    if target.exists() and _context(target) != _context(source):
        raise UsageError(f"--kubeconfig {target}: the file is there and not one of ours; choose another file")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch(mode=0o600)
    target.write_text(text)


def _context(kubeconfig: Path) -> object:
    try:
        content = yaml.safe_load(kubeconfig.read_text(errors="replace"))
    except yaml.YAMLError:
        return None
    return content.get("current-context") if isinstance(content, dict) else None


def _tell(cluster: "EmbeddedCluster", wanted: _Wanted, processes: Sequence[DriverProcess]) -> None:
    click.echo(f"API server  {cluster.url}")
    click.echo(f"Data        {wanted.data}")
    click.echo(f"Nodes       {', '.join(cluster.nodes)}")
    click.echo(f"Containers  {cluster.runtime.removeprefix('containers are ')}")
    for process in processes:
        click.echo(f"Driver      {process.driver} {process.where}, log {process.log}")
    if wanted.metrics_port:
        click.echo(f"Metrics     http://127.0.0.1:{wanted.metrics_port}/metrics")
    if not processes:
        click.echo("Driver      none; --driver loop offers this machine's loop devices")
    if any(process.node for process in processes) and len(cluster.nodes) > 1:
        click.echo("            all nodes are this one machine, so a driver offers the same devices on each")
    click.echo("\nIn another terminal:")
    click.echo(f"  export KUBECONFIG={wanted.kubeconfig or cluster.kubeconfig_path}")
    click.echo("  kubectl get nodes,resourceslices")
    click.echo("\nFor laptops and tests, not for production. Ctrl-C ends it.")
