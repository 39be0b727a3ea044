"""What commands look at: the objects of a cluster, from files or from its API server.

Law of this package: it collects and decodes, and says what can't be read or seen; it decides nothing.
"""

from dradriver.cli.world.events import PREPARE_FAILED, PodEvent
from dradriver.cli.world.live import list_if_allowed, list_typed, list_world
from dradriver.cli.world.loading import loading
from dradriver.cli.world.needs import Need, needs, pod_need
from dradriver.cli.world.options import WorldSource, world_options
from dradriver.cli.world.world import DEFAULT_NAMESPACE, World, allocation_node, read_world

__all__ = [
    "DEFAULT_NAMESPACE",
    "PREPARE_FAILED",
    "Need",
    "PodEvent",
    "World",
    "WorldSource",
    "allocation_node",
    "list_if_allowed",
    "list_typed",
    "list_world",
    "loading",
    "needs",
    "pod_need",
    "read_world",
    "world_options",
]
