"""What runs beside the kubelet: registration, prepare and unprepare, prepared state, CDI specs, health.

Law of this package: whatever the process is killed between, the next start, prepare or unprepare brings the
claim to the same end: prepared once, or not at all. For that, every side effect stands in one of four places
(state file, driver, device metadata, CDI spec), is written by one function, and says in its docstring what
happens when the process dies right after it. Nothing here may block the event loop, wait for one claim on
behalf of another, or decide anything about allocation.
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
