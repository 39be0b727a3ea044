"""`dradriver get partitions`."""

from collections.abc import Mapping

import click

from dradriver.allocator import AllocationNode, Inventory
from dradriver.cli.partitions import CounterSetUse, counter_set_uses, draw_counter_sets
from dradriver.cli.terminal.output import document, output_option, prose
from dradriver.cli.world import World, WorldSource, allocation_node, world_options
from dradriver.errors import NotFoundError

__all__ = ["partitions"]


@click.command(short_help="Draw which partitions of devices are in use.")
@click.option("--node", help="Show only pools that this node reaches.  [default: all]")
@world_options
@output_option
def partitions(node: str | None, source: WorldSource, output: str) -> None:
    """Draw the counter sets of pools: the used parts with their devices, claims and pods.

    Reads the cluster, or the ResourceSlices, ResourceClaims and Nodes in files.
    """
    world = source.read()
    uses = list(counter_set_uses(Inventory.of(world.slices), world.claims.values(), _node(world, node)))
    if output != "table":
        items = [_item(use) for use in uses]
        document({"apiVersion": "dradriver/v1", "kind": "PartitionList", "items": items}, output)
        return
    if not uses:
        click.echo("No counter sets: no usable pool has devices that share counters.", err=True)
    prose(draw_counter_sets(uses))


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
