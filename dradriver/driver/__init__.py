"""The author's side of dradriver: classes to subclass, and the values that they exchange with the SDK.

Law of this package: it holds the contract only. It has no I/O, no event loop and no Kubernetes client. Authors
can rely on every sentence of these docstrings; `DriverContract` tests them.

Modules:

- `base`: `Driver`, the class that an author of a node driver subclasses.
- `pools`: `PoolDriver`, for devices that belong to no single node.
- `binding`: `BindingDriver` and `NodeBindingDriver`, for devices with binding conditions (KEP-5007).
- `source`: `DeviceSource`, the common base: discovery, fallback layout, shutdown.
- `context`: `DriverContext`, the services that the SDK offers to a running driver.
- `claim`: `Claim` and `AllocatedDevice`, the input of a prepare.
- `prepared`: `PreparedDevice` and `DeviceMetadata`, the result of a prepare.
- `config`: `Config`, the base class of opaque configuration, and its decoding.
- `mistakes`: all errors of a configuration, not only the first.
- `health`: device health (KEP-4680).
- `named`: a driver's name and the checks of its class, without an instance.
- `code_places`: `file:line` in the author's code, for error messages.
"""

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
from dradriver.driver.config import Config
from dradriver.driver.context import DriverContext
from dradriver.driver.health import DeviceHealth, Health
from dradriver.driver.pools import PoolDriver
from dradriver.driver.prepared import DeviceMetadata, PreparedDevice
from dradriver.driver.source import DeviceSource, Inventory

__all__ = [
    "AllocatedDevice",
    "AllocationGone",
    "AttachError",
    "Attaching",
    "Attachment",
    "BindingClaim",
    "BindingDriver",
    "Claim",
    "ClaimConditions",
    "Config",
    "DeviceHealth",
    "DeviceMetadata",
    "DeviceSource",
    "Driver",
    "DriverContext",
    "Health",
    "Inventory",
    "NodeBindingDriver",
    "PoolDriver",
    "PreparedDevice",
]
