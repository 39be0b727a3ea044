"""The node side of a driver: registration, prepare and unprepare, prepared state, CDI specs, health.

Rule of this package: if the process is killed at any point, the next start, prepare or unprepare continues. In
the end, each claim is prepared once or not at all. To make this possible, side effects change only five things:
the state file, the usage note, the driver's hardware, device metadata and CDI specs. Each side effect is in one
function, whose docstring says what happens if the process dies right after it. No function blocks the event
loop, makes one claim wait for another, or allocates devices.

Rooms (subpackages):

- `claims`: lookup, prepare, unprepare, conflict check, reconcile, claim status.
- `devices`: discovery, inventory, shared pools, publish election.
- `files`: atomic files, CDI specs, device metadata.
- `kubelet`: registration, sockets, the gRPC server and its services.
- `reporting`: metrics, readiness, events, redaction, node status.
- `state`: the prepared state in SQLite, its tables, locks.
- `usage`: the usage note, a ConfigMap that lists the devices of a pool driver in use on the node.

Modules that other packages use, in addition to the names in `__all__`:

- `config`: settings of one plugin process.
- `driver_calls`: calls the author's methods, on the event loop or in worker threads.
- `driver_context`: serves a driver's requests to the SDK, such as to read a ConfigMap.
- `crash_points`: names the points between side effects, at which tests kill the process.
- `errors`: the errors of the node side.

Modules that only this package uses:

- `plugin`: `Plugin`, one driver beside the kubelet, from start to stop.
- `composition`: builds the parts of a `Plugin` in order.
- `api`: the part of the Kubernetes client that the node side uses.
"""

from dradriver.node.config import PluginConfig
from dradriver.node.errors import (
    ClaimError,
    DeviceInUseError,
    InProgressError,
    RegistrationError,
    StateError,
)
from dradriver.node.plugin import Plugin
from dradriver.node.reporting.status import PluginStatus, node_status
from dradriver.node.state.records import PreparedClaimRecord

__all__ = [
    "ClaimError",
    "DeviceInUseError",
    "InProgressError",
    "Plugin",
    "PluginConfig",
    "PluginStatus",
    "PreparedClaimRecord",
    "RegistrationError",
    "StateError",
    "node_status",
]
