"""What a driver reports: device health to the kubelet (KEP-4680), and its node's state to a `BindingDriver`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["DeviceHealth", "Health", "NodeReport"]


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
        message: the reason, as text for users. At most 1,024 characters reach the pod's status.
        pool: the device's pool. Empty: the pool that is named after the node.
        check_timeout: seconds after which the kubelet treats the report as stale. 0: the kubelet's default
            (30).
    """

    device: str
    health: Health
    message: str = ""
    pool: str = ""
    check_timeout: int = 0


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The state of one node, for the `BindingDriver` of the same name.

    The SDK on the node writes it into the node's usage note, a ConfigMap in the driver's namespace. Keep it
    small: all nodes' notes are read together.

    Attributes:
        problem: why the node can attach no device, for people. Empty: it can. While it is not empty, the SDK
            does not call `BindingDriver.attach` for this node: the claim fails with the reason `NodeNotReady`,
            and the device is not tainted.
        unhealthy: why a device of the `BindingDriver`'s pools does not work on this node, for people, by the
            device's name.
        values: facts for the `BindingDriver`, such as `{"systemUUID": "..."}`. The SDK does not interpret them.
    """

    problem: str = ""
    unhealthy: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
