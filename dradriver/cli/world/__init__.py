"""The objects of a cluster, read from files or from the API server.

Law of this package: it collects and decodes objects, and reports unreadable or forbidden objects. It must not
decide anything.

- `world`: `World`, which contains the objects, and the function that reads it from files.
- `live`: reads the objects from a cluster.
- `needs`: pods and claims that need devices.
- `events`: warnings about failed prepares, and warnings of controllers.
- `overview`: computes the overview of a world.
- `options`: options that select files or a cluster.
"""

from dradriver.cli.world.events import CONTROLLER_FAILURES, PREPARE_FAILED, PodEvent, list_prepare_failures
from dradriver.cli.world.live import list_classic, list_if_allowed, list_typed, list_world
from dradriver.cli.world.needs import Need, list_needs, pod_need
from dradriver.cli.world.options import WorldSource, world_options
from dradriver.cli.world.overview import overview_of
from dradriver.cli.world.world import DEFAULT_NAMESPACE, World, allocation_node, read_world

__all__ = [
    "CONTROLLER_FAILURES",
    "DEFAULT_NAMESPACE",
    "PREPARE_FAILED",
    "Need",
    "PodEvent",
    "World",
    "WorldSource",
    "allocation_node",
    "list_classic",
    "list_if_allowed",
    "list_needs",
    "list_prepare_failures",
    "list_typed",
    "list_world",
    "overview_of",
    "pod_need",
    "read_world",
    "world_options",
]
