"""`dradriver up`: runs the embedded cluster until Ctrl-C."""

import asyncio
import signal
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import yaml

from dradriver.aio.bulk_load import collect_garbage_rarely
from dradriver.allocator import ORDERS
from dradriver.cli.attempt import allocator_options
from dradriver.cli.embedded_cluster import driver_processes, runtime_option
from dradriver.cli.node_folders import default_data_folder
from dradriver.cli.supervisor import DriverProcess, Supervisor
from dradriver.cli.terminal.output import progress_console
from dradriver.control.extended import ScoringStrategy
from dradriver.errors import DraError, UsageError
from dradriver.kube import CLAIMS
from dradriver.model.resource.claim import ResourceClaim
from dradriver.runner import driver_names, load_any

if TYPE_CHECKING:
    from dradriver.cluster import EmbeddedCluster

__all__ = ["describe_missing_drivers", "up"]


@dataclass(frozen=True, slots=True)
class _Settings:
    """Values of the options."""

    data: Path
    kubeconfig: Path | None
    nodes: int
    drivers: Sequence[str]
    feature_gates: str
    port: int
    runtime: str | None
    metrics_port: int
    binding_timeout: float
    budget: int
    order: str
    scoring: ScoringStrategy | None


@click.command(short_help="Run a small embedded cluster for kubectl.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for state, credentials and node folders, which a restart keeps.  "
    "[default: $XDG_DATA_HOME/dradriver, or ~/.local/share/dradriver]",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the administrator's kubeconfig to this file.  [default: only to DATA/kubeconfig]",
)
@click.option("--nodes", type=click.IntRange(1, 100), default=1, show_default=True, help="Number of nodes.")
@click.option(
    "--driver",
    "drivers",
    multiple=True,
    help="Driver to run on each node, or once if it is a pool driver; can be repeated.  [default: none]",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port of the API server.  [default: a free one]"
)
@runtime_option
@click.option(
    "--binding-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    help="Time limit in seconds for the binding conditions of a pod's devices.",
)
@allocator_options
@click.option(
    "--scoring",
    metavar="STRATEGY:RESOURCES",
    default="",
    help="Score of nodes for pods with extended resources, as LeastAllocated:example.com/gpu=1 or "
    "MostAllocated:...  [default: all nodes have the same score]",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port on 127.0.0.1 for metrics of the scheduler and controllers; 0 serves none.  [default: 0]",
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
    budget: int,
    order: str,
    scoring: str,
    metrics_port: int,
) -> None:
    """Run a small embedded cluster for kubectl, with real devices of this machine.

    The cluster has an API server, the controllers that claims need, a scheduler, and a kubelet stand-in for
    each node. It is for laptops and tests, not for production. It runs until Ctrl-C. The next start continues
    with the same objects.
    """
    for name in drivers:
        load_any(name)  # a driver that is not installed is reported before anything starts
    settings = _Settings(
        data=data or default_data_folder(),
        kubeconfig=kubeconfig,
        nodes=nodes,
        drivers=drivers,
        feature_gates=feature_gates,
        port=port,
        runtime=runtime,
        metrics_port=metrics_port,
        binding_timeout=binding_timeout,
        budget=budget,
        order=order,
        scoring=ScoringStrategy.parse(scoring) if scoring else None,
    )
    collect_garbage_rarely()
    asyncio.run(_up(settings))


async def _up(settings: _Settings) -> None:
    # The embedded cluster and the HTTP endpoints are slow to import.
    from dradriver.cluster import EmbeddedCluster  # noqa: PLC0415
    from dradriver.cluster.apiserver.kinds.gates import FeatureGates  # noqa: PLC0415
    from dradriver.runner.endpoints import Endpoints  # noqa: PLC0415

    gates = FeatureGates.parse(settings.feature_gates)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    console = progress_console()
    async with AsyncExitStack() as stack:
        with console.status("Starting the cluster"):
            cluster = await stack.enter_async_context(
                EmbeddedCluster(
                    settings.data,
                    nodes=settings.nodes,
                    port=settings.port,
                    feature_gates=gates.settings,
                    runtime=settings.runtime,
                    binding_timeout_seconds=settings.binding_timeout,
                    budget=settings.budget,
                    order=ORDERS[settings.order],
                    scoring=settings.scoring,
                )
            )
            await stack.enter_async_context(Endpoints(cluster, "127.0.0.1", settings.metrics_port))
        if settings.kubeconfig is not None:
            _copy_kubeconfig(cluster.kubeconfig_path, settings.kubeconfig)
        processes = driver_processes(cluster, settings.drivers)
        await stack.enter_async_context(Supervisor(processes, lambda line: click.echo(line, err=True)))
        _print_summary(cluster, settings, processes)
        await _warn_about_missing_drivers(cluster, settings.drivers)
        await stop.wait()
        click.echo("Stopping the containers. The state stays in " + str(settings.data), err=True)


async def _warn_about_missing_drivers(cluster: "EmbeddedCluster", drivers: Sequence[str]) -> None:
    """Warn about drivers that allocated claims need but that are not running."""
    claims = (await cluster.client().list(CLAIMS, into=ResourceClaim)).items
    for line in describe_missing_drivers(
        {result.driver for claim in claims for result in claim.results}, drivers
    ):
        click.echo(line, err=True)


def describe_missing_drivers(used: Iterable[str], drivers: Sequence[str]) -> list[str]:
    """Return a message for each driver that claims use but that is not running.

    Args:
        used: names of drivers in the cluster, such as `loop.example.com`.
        drivers: entry points of the running drivers, such as `loop`.
    """
    running = {load_any(name).name for name in drivers}
    missing = sorted(set(used) - running)
    installed = {driver: name for name in driver_names() if (driver := _driver_of(name))} if missing else {}
    return [
        f"Warning: claims have devices of driver {driver}, which does not run: "
        + (f"add --driver {installed[driver]}" if driver in installed else "it is not installed")
        for driver in missing
    ]


def _driver_of(name: str) -> str:
    try:
        return load_any(name).name
    except DraError:
        return ""  # the driver is broken, but the user did not request it


def _copy_kubeconfig(source: Path, target: Path) -> None:
    """Write the kubeconfig, but never overwrite the kubeconfig of another cluster."""
    text = source.read_text()
    if target.exists() and _context(target) != _context(source):
        raise UsageError(
            f"--kubeconfig: {target} exists and is not a kubeconfig of this cluster; choose another file"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch(mode=0o600)
    target.write_text(text)


def _context(kubeconfig: Path) -> object:
    try:
        content = yaml.safe_load(kubeconfig.read_text(errors="replace"))
    except yaml.YAMLError:
        return None
    return content.get("current-context") if isinstance(content, dict) else None


def _print_summary(cluster: "EmbeddedCluster", settings: _Settings, processes: Sequence[DriverProcess]) -> None:
    click.echo(f"API server  {cluster.url}")
    click.echo(f"Data        {settings.data}")
    click.echo(f"Nodes       {', '.join(cluster.nodes)}")
    click.echo(f"Containers  {cluster.runtime.removeprefix('containers are ')}")
    for process in processes:
        click.echo(f"Driver      {process.driver} {process.where}, log {process.log}")
    if settings.metrics_port:
        click.echo(f"Metrics     http://127.0.0.1:{settings.metrics_port}/metrics")
    if not processes:
        click.echo("Driver      none; --driver loop publishes this machine's loop devices")
    if any(process.node for process in processes) and len(cluster.nodes) > 1:
        click.echo("            all nodes are this machine, so a driver publishes the same devices on each")
    click.echo("\nIn another terminal:")
    click.echo(f"  export KUBECONFIG={settings.kubeconfig or cluster.kubeconfig_path}")
    click.echo("  kubectl get nodes,resourceslices")
    click.echo("\nFor laptops and tests, not for production. Press Ctrl-C to stop.")
