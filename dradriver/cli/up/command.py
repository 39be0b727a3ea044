"""The command `dradriver up`: reads the options."""

import asyncio
from pathlib import Path

import click

from dradriver.aio.bulk_load import collect_garbage_rarely
from dradriver.cli.attempt import allocator_options
from dradriver.cli.embedded_cluster import runtime_option
from dradriver.cli.node_folders import default_data_folder
from dradriver.cli.up.logs import logs
from dradriver.cli.up.session import run_cluster
from dradriver.cli.up.settings import UpSettings
from dradriver.control.extended import ScoringStrategy
from dradriver.runner import load_any

__all__ = ["up"]


@click.group(invoke_without_command=True, short_help="Run a small embedded cluster for kubectl.")
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
@click.option(
    "--fresh",
    is_flag=True,
    help="Remove the state of earlier runs from the data folder first, and print what is removed.",
)
@click.option(
    "--reload",
    is_flag=True,
    help="Restart a driver when its Python files change. Prepared claims stay prepared.",
)
@click.pass_context
def up(  # noqa: PLR0913, PLR0917 - one argument an option
    ctx: click.Context,
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
    fresh: bool,
    reload: bool,
) -> None:
    """Run a small embedded cluster for kubectl, with real devices of this machine.

    The cluster has an API server, the controllers that claims need, a scheduler, and a kubelet stand-in for
    each node. It is for laptops and tests, not for production. It runs until Ctrl-C. The next start continues
    with the same objects. `dradriver up logs DRIVER` prints the log of a driver.
    """
    if ctx.invoked_subcommand is not None:
        return
    for name in drivers:
        load_any(name)  # a driver that is not installed is reported before anything starts
    settings = UpSettings(
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
        fresh=fresh,
        reload=reload,
    )
    collect_garbage_rarely()
    asyncio.run(run_cluster(settings))


up.add_command(logs)
