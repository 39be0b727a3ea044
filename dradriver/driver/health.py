"""Device health as a driver reports it to the kubelet (KEP-4680)."""

from dataclasses import dataclass
from enum import Enum

__all__ = ["DeviceHealth", "Health"]


class Health(Enum):
    """The kubelet's three values for the health of a device."""

    UNKNOWN = "Unknown"
    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """The health of one device.

    Attributes:
        device: the device's name.
        health: the value.
        message: the reason, for people. At most 1,024 characters reach the pod's status.
        pool: the device's pool. Empty: the pool that is named after the node.
        check_timeout: seconds after which the kubelet treats the report as stale (0: its default, 30).
    """

    device: str
    health: Health
    message: str = ""
    pool: str = ""
    check_timeout: int = 0
