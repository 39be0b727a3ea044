"""The node side of a driver: registration, prepare and unprepare, prepared state, CDI specs, health.

Law of this package: whenever the process is killed, the next start, prepare or unprepare brings the claim to
the same end: prepared once, or not at all. Therefore every side effect is in one of four places (state file,
driver, device metadata, CDI spec), is written by one function, and has a docstring that says what happens if
the process dies right after it. Nothing here blocks the event loop, waits for one claim on behalf of another,
or decides anything about allocation.

Rooms:

- `claims`: lookup, prepare, unprepare, conflict check, reconcile, claim status.
- `devices`: discovery, inventory, shared pools, publish election.
- `files`: atomic files, CDI specs, device metadata.
- `kubelet`: registration, sockets, the gRPC server and its services.
- `reporting`: metrics, readiness, events, redaction, node status.
- `state`: the prepared state in SQLite, its tables, locks.

Modules:

- `plugin`: `Plugin`, one driver beside the kubelet, from start to stop.
- `composition`: builds the parts of a node in order.
- `config`: settings of one plugin process.
- `api`: the part of the Kubernetes client that the node side uses.
- `driver_calls`: calls the author's methods, on the loop or in worker threads.
- `driver_context`: serves the requests of a driver to the SDK.
- `config_maps`: reads ConfigMaps for drivers.
- `crash_points`: the steps between side effects, where tests kill the process.
- `errors`: the errors of the node side.
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
from dradriver.node.reporting.status import NodeReport, node_status
from dradriver.node.state.records import PreparedClaimRecord

__all__ = [
    "ClaimError",
    "DeviceInUseError",
    "InProgressError",
    "NodeReport",
    "Plugin",
    "PluginConfig",
    "PreparedClaimRecord",
    "RegistrationError",
    "StateError",
    "node_status",
]
