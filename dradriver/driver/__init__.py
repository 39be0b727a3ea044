"""The author's side of dradriver: a class to subclass and the values it exchanges with the SDK.

Law of this package: the contract and nothing else. No I/O, no loop, no Kubernetes client; what is said in
these docstrings is what an author may rely on, and every sentence of it is tested by `DriverContract`.
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
