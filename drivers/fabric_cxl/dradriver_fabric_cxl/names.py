"""Names that both drivers of the fabric share: the driver, its conditions and the attributes of its devices."""

from typing import Final

__all__ = ["ATTACHED", "ATTACH_FAILED", "DRIVER", "NOT_READY", "READY", "SYSTEM_UUID", "TIMED_OUT"]

DRIVER: Final = "cxl.example.com"
"""The driver's name in the cluster."""
ATTACHED: Final = f"{DRIVER}/attached"
"""Binding condition: the manager has connected the device to the host. The pool driver sets it."""
READY: Final = f"{DRIVER}/ready"
"""Binding condition: the node can use the device. The node's driver sets it."""
ATTACH_FAILED: Final = f"{DRIVER}/attach-failed"
"""Binding failure condition: the manager could not attach the device."""
NOT_READY: Final = f"{DRIVER}/not-ready"
"""Binding failure condition: the node could not use the device."""
TIMED_OUT: Final = f"{DRIVER}/timed-out"
"""Binding failure condition: the manager did not attach the device in time."""
SYSTEM_UUID: Final = "systemUUID"
"""Key in a node's report: UUID of the computer (SMBIOS) in lower case, which identifies the node's host."""
