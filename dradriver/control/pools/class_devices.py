"""Count the devices of a class that a node reaches."""

from collections.abc import Iterable
from typing import Final

from dradriver.allocator import AllocationNode, BudgetSpentError, CelSelectors, Meter
from dradriver.allocator.supply.node_supply import Offer
from dradriver.allocator.supply.nodes import device_on_node
from dradriver.cel.evaluate.errors import CelError
from dradriver.model.core.workload import Node
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["count_devices"]

_CEL: Final = CelSelectors()


def count_devices(device_class: DeviceClass, node: Node, pools: Iterable[Offer]) -> tuple[int, int]:
    """Return the number of devices of a class that a node reaches, and how many of these devices are allocated.

    Both numbers are 0 if a selector fails, as in `NodeResourcesFit`, or if the work exceeds a pod's budget.

    Args:
        device_class: the class.
        node: the node.
        pools: the pools as the node sees them (`Placer.pools_on`).
    """
    here = AllocationNode(node.metadata.name, node.metadata.labels, frozenset(node.status.declared_features))
    expressions = [selector.cel.expression for selector in device_class.spec.selectors if selector.cel]
    total = allocated = 0
    meter = Meter()
    try:
        matchers = [_CEL.compile(expression, meter) for expression in expressions]
        for pool, use in pools:
            for device in pool.devices:
                is_here = device_on_node(device.device, device.source, here)
                if is_here and all(matches(device, meter) for matches in matchers):
                    total += 1
                    allocated += device.device.name in use.claims
    except (CelError, BudgetSpentError):
        return 0, 0
    return total, allocated
