"""The objects of a cluster, from files or from its API server.

Law of this package: it collects and decodes objects, and reports unreadable or forbidden ones. It decides
nothing.

- `world`: `World`, the objects.
- `live`: reads them from a cluster.
- `needs`: pods and claims that need devices.
- `events`: warnings about failed prepares.
- `loading`: suspends garbage collection during a load.
- `options`: options that select files or a cluster.
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
