"""Number of devices of a class that a node reaches."""

from typing import Final

from dradriver.allocator import AllocationNode, CelSelectors, Features, InUse, Inventory
from dradriver.allocator.supply.nodes import device_on_node
from dradriver.cel.evaluate.errors import CelError
from dradriver.model.core.workload import Node
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["devices_of"]

_CEL: Final = CelSelectors()


def devices_of(
    wanted: DeviceClass, node: Node, inventory: Inventory, in_use: InUse, features: Features
) -> tuple[int, int]:
    """Return how many devices of a class a node reaches, and how many of them are allocated.

    Both are 0 if a selector fails, as in `NodeResourcesFit`.

    Args:
        wanted: the class.
        node: the node.
        inventory: all pools.
        in_use: the allocated devices.
        features: the enabled features.
    """
    here = AllocationNode(node.metadata.name, node.metadata.labels, frozenset(node.status.declared_features))
    expressions = [selector.cel.expression for selector in wanted.spec.selectors if selector.cel]
    total = allocated = 0
    try:
        matchers = [_CEL.compile(expression) for expression in expressions]
        for seen in inventory.on(here, features):
            held = in_use.of_pool(seen.view.key)
            for device in seen.devices:
                if device_on_node(device.device, device.source, here) and all(m(device) for m in matchers):
                    total += 1
                    allocated += device.device.name in held
    except CelError:
        return 0, 0
    return total, allocated
