"""`dradriver get partitions`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import click

from dradriver.allocator import AllocationNode, Inventory
from dradriver.cli.completion import completer
from dradriver.cli.listing import is_collecting, unused_namespace_options, unused_selector_options
from dradriver.cli.terminal.output import document, drawing_output_option, prose
from dradriver.cli.world import World, WorldSource, allocation_node, overview_of, world_options
from dradriver.errors import NotFoundError, UsageError
from dradriver.overview import CounterSetUse, Overview, counter_set_uses, draw_counter_sets
from dradriver.overview.drawing.document import draw_document
from dradriver.overview.drawing.page import draw_page

__all__ = ["partitions"]

_DRAWINGS: Final[Mapping[str, Callable[[Overview, str], str]]] = {"svg": draw_document, "html": draw_page}


@click.command(short_help="Draw which partitions of devices are in use.")
@click.option(
    "--node",
    shell_complete=completer("nodes"),
    help="Show only pools that this node reaches.  [default: all]",
)
@unused_namespace_options
@unused_selector_options("select partitions with --node, or slices with get slices -l")
@world_options
@drawing_output_option
def partitions(node: str | None, source: WorldSource, output: str) -> None:
    """Draw the counter sets of pools: the used parts with their devices, claims and pods.

    Reads the cluster, or the ResourceSlices, ResourceClaims and Nodes in files. With -o svg or html, the
    drawing is one file for a report. It also has pools without counter sets, taints, and the health of devices.
    """
    if output != "table" and is_collecting():
        raise UsageError(f"-o {output}: type a command of its own for partitions, they are not part of a list")
    world = source.read()
    if output in _DRAWINGS:
        click.echo(_DRAWINGS[output](_overview(world, node), "Devices and partitions"), nl=False)
        return
    uses = list(counter_set_uses(Inventory.of(world.slices), world.claims.values(), _node(world, node)))
    if output != "table":
        items = [_item(use) for use in uses]
        document({"apiVersion": "dradriver/v1", "kind": "PartitionList", "items": items}, output)
        return
    if not uses:
        click.echo("No counter sets: no usable pool has devices that share counters.", err=True)
    prose(draw_counter_sets(uses))


def _overview(world: World, node: str | None) -> Overview:
    shown = overview_of(world)
    if node is None:
        return shown
    _node(world, node)
    nodes = {name: each for name, each in shown.nodes.items() if name == node}
    return replace(shown, nodes=nodes, reaches=tuple(each for each in shown.reaches if node in each.nodes))


def _node(world: World, name: str | None) -> AllocationNode | None:
    if name is None:
        return None
    node = world.known_nodes().get(name)
    if node is None:
        raise NotFoundError(f"there is no node {name}")
    return allocation_node(node)


def _item(use: CounterSetUse) -> Mapping[str, object]:
    return {
        "driver": use.driver,
        "pool": use.pool,
        "counterSet": use.name,
        "counters": [
            {"name": counter.name, "total": str(counter.total), "used": str(counter.used)}
            for counter in use.counters
        ],
        "inUse": [
            {
                "device": holder.device,
                "claims": list(holder.claims),
                "pods": list(holder.pods),
                "consumes": {name: str(amount) for name, amount in holder.consumes.items()},
            }
            for holder in use.holders
        ],
        "fitting": list(use.fitting),
        "devices": use.devices,
    }
