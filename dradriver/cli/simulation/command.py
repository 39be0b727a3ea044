"""The command `dradriver simulate`."""

from collections.abc import Sequence
from time import perf_counter

import click

from dradriver.allocator import Inventory
from dradriver.cli.attempt import AttemptSettings, settings_options
from dradriver.cli.files import file_options, read_sound_files
from dradriver.cli.partitions import counter_set_uses, drawing
from dradriver.cli.simulation.report import SimulationReport
from dradriver.cli.simulation.run import Simulation
from dradriver.cli.terminal.errors import FAILED
from dradriver.cli.terminal.output import document, output_option, prose
from dradriver.cli.terminal.progress import Progress
from dradriver.cli.world import World, loading, needs, read_world
from dradriver.errors import UsageError

__all__ = ["simulate"]


@click.command(short_help="Show where pods would go and with which devices, or why not.")
@click.option(
    "--draw", is_flag=True, help="Draw the partitions of devices as they are in the end (table only)."
)
@file_options()
@settings_options
@output_option
@click.pass_context
def simulate(
    ctx: click.Context, files: Sequence[str], settings: AttemptSettings, draw: bool, output: str
) -> None:
    """Show on which nodes pods would be placed and with which devices, or why not, without a cluster.

    The files hold Nodes, DeviceClasses, ResourceSlices, ResourceClaims and their templates, DeviceTaintRules
    and Pods. Pods are placed in their order, then claims that no pod uses; an allocation holds for all that
    follow, and so do those that claims have already. Exits with 1 when something does not fit.
    """
    began = perf_counter()
    with loading():
        world = read_world(read_sound_files(files))
        wanted = [need for need in needs(world) if need.pod is None or not need.pod.finished]
        if not wanted:
            raise UsageError(
                "the files hold no Pod and no ResourceClaim that is to be allocated; Deployments and other "
                "owners of pods are not looked into"
            )
        simulation = Simulation(world, settings)
    loaded = perf_counter() - began
    outcomes = []
    with Progress(len(wanted), "pods and claims") as progress:
        for need in wanted:
            outcomes.append(simulation.meet(need))
            progress.step()
    report = SimulationReport(outcomes, loaded)
    if output == "table":
        prose(report.lines())
        prose(_drawn(world, simulation) if draw else ())
        click.echo(report.summary(), err=True)
    else:
        document(report.document(), output)
    if not report.fits:
        ctx.exit(FAILED)


def _drawn(world: World, simulation: Simulation) -> Sequence[str]:
    uses = counter_set_uses(Inventory.of(world.slices), simulation.claims.values())
    return ["", *drawing(use for use in uses if use.holders)]
