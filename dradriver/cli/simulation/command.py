"""The command `dradriver simulate`."""

from collections.abc import Iterator, Sequence
from time import perf_counter

import click

from dradriver.aio.bulk_load import bulk_load
from dradriver.allocator import Inventory
from dradriver.cli.attempt import AttemptSettings, settings_options
from dradriver.cli.files import file_options, read_valid_files
from dradriver.cli.simulation.report import SimulationReport
from dradriver.cli.simulation.run import Simulation
from dradriver.cli.terminal.errors import FAILED
from dradriver.cli.terminal.output import document, html_output_option, prose
from dradriver.cli.terminal.progress import Progress
from dradriver.cli.world import list_needs, overview_of, read_world
from dradriver.errors import UsageError
from dradriver.overview import counter_set_uses, draw_counter_sets, largest_devices
from dradriver.overview.drawing.comparison import draw_comparison

__all__ = ["simulate"]


@click.command(short_help="Show on which nodes and devices pods would be placed.")
@click.option(
    "--draw",
    is_flag=True,
    help="Draw the final use of partitions, and list what still fits; only with the output table.",
)
@file_options()
@settings_options
@html_output_option
@click.pass_context
def simulate(
    ctx: click.Context, files: Sequence[str], settings: AttemptSettings, draw: bool, output: str
) -> None:
    """Show on which nodes and with which devices pods would be placed, or why they do not fit.

    Needs no cluster. The files contain Nodes, DeviceClasses, ResourceSlices, ResourceClaims,
    ResourceClaimTemplates, DeviceTaintRules and Pods. First the pods are placed in their order, then claims
    that no pod uses are allocated. Each allocation counts for the pods after it, and so do the existing
    allocations. A classic claim (KEP-3063) is reported and not simulated, because its controller decides; the
    other claims of its pod are simulated. With -o html, the result is one file for a report, which draws the
    devices before and after. The exit code is 1 if a pod or a claim does not fit.
    """
    began = perf_counter()
    with bulk_load():
        world = read_world(read_valid_files(files))
        wanted = [need for need in list_needs(world) if need.pod is None or not need.pod.finished]
        if not wanted:
            raise UsageError(
                "the files have no Pod that is not finished and no ResourceClaim without an allocation; "
                "Deployments and "
                "other owners of pods are not read"
            )
        simulation = Simulation(world, settings)
    loaded = perf_counter() - began
    outcomes = []
    with Progress(len(wanted), "pods and claims") as progress:
        for need in wanted:
            outcomes.append(simulation.place(need))
            progress.step()
    inventory = Inventory.of(world.slices)
    report = SimulationReport(outcomes, loaded, has_slices=bool(world.slices))
    if output == "html":
        before, after = overview_of(world), overview_of(world, simulation.claims.values())
        click.echo(draw_comparison(before, after, "Simulation", report.rows()), nl=False)
    elif output == "table":
        prose(report.lines())
        prose(_draw_partitions(inventory, simulation) if draw else ())
        click.echo(report.summary(), err=True)
    else:
        largest = list(largest_devices(inventory, simulation.claims.values()))
        document(report.document(largest), output)
    if not report.fits:
        ctx.exit(FAILED)


def _draw_partitions(inventory: Inventory, simulation: Simulation) -> Iterator[str]:
    claims = simulation.claims.values()
    yield ""
    yield from draw_counter_sets(use for use in counter_set_uses(inventory, claims) if use.holders)
    yield ""
    yield "largest devices that still fit together, taken in the order of the pool"
    yield from (f"  {each.line()}" for each in largest_devices(inventory, claims))
