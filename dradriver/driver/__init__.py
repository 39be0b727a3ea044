"""The author's side of dradriver: classes to subclass, and the values that they exchange with the SDK.

Law of this package: it holds the contract only. It has no I/O, no event loop and no Kubernetes client. Authors
can rely on every sentence of these docstrings; `DriverContract` tests them.

Modules:

- `base`: `Driver`, the class that an author of a node driver subclasses.
- `pools`: `PoolDriver`, for devices that belong to no single node.
- `binding`: `BindingDriver` and `NodeBindingDriver`, for devices with binding conditions (KEP-5007).
- `controller`: `ControllerDriver`, which allocates claims instead of the scheduler (KEP-3063).
- `driver_base`: `DriverBase`, the common base of all drivers.
- `source`: `DeviceSource`, the common base of drivers that publish devices: discovery and fallback layout.
- `context`: `DriverContext`, the services that the SDK offers to a running driver.
- `claim`: `Claim` and `AllocatedDevice`, the input of a prepare.
- `prepared`: `PreparedDevice` and `DeviceMetadata`, the result of a prepare.
- `configuration`: `Config`, the base class of opaque configuration, and its decoding.
- `health`: device health (KEP-4680), and `NodeReport`, the state of a node for a `BindingDriver`.
- `driver_class`: a driver's name and the checks of its class, without an instance.
- `source_locations`: `file:line` in the author's code, for error messages.
"""

from typing import TypeAlias

from dradriver.driver.base import Driver
from dradriver.driver.binding import (
    AllocationGone,
    AttachError,
    Attaching,
    Attachment,
    BindingClaim,
    BindingDriver,
    ClaimConditions,
    NodeBindingDriver,
)
from dradriver.driver.claim import AllocatedDevice, Claim
from dradriver.driver.configuration.config import Config
from dradriver.driver.context import DriverContext
from dradriver.driver.controller import (
    AllocationError,
    ControllerAllocationResult,
    ControllerDevice,
    ControllerDriver,
    PendingClaim,
    PendingPod,
    PendingRequest,
    RecordedClaim,
)
from dradriver.driver.driver_base import DriverBase
from dradriver.driver.health import DeviceHealth, Health, NodeReport
from dradriver.driver.pools import PoolDriver
from dradriver.driver.prepared import DeviceMetadata, PreparedDevice
from dradriver.driver.source import DeviceSource, Inventory

__all__ = [
    "AllocatedDevice",
    "AllocationError",
    "AllocationGone",
    "AnyDriver",
    "AttachError",
    "Attaching",
    "Attachment",
    "BindingClaim",
    "BindingDriver",
    "Claim",
    "ClaimConditions",
    "Config",
    "ControllerAllocationResult",
    "ControllerDevice",
    "ControllerDriver",
    "DeviceHealth",
    "DeviceMetadata",
    "DeviceSource",
    "Driver",
    "DriverBase",
    "DriverContext",
    "Health",
    "Inventory",
    "NodeBindingDriver",
    "NodeReport",
    "PendingClaim",
    "PendingPod",
    "PendingRequest",
    "PoolDriver",
    "PreparedDevice",
    "RecordedClaim",
]

AnyDriver: TypeAlias = Driver | PoolDriver | ControllerDriver
"""A driver that has a process of its own."""
