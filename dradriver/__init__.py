"""dradriver: write a Kubernetes DRA driver by subclassing one class.

    import dradriver as dra

    class LedDriver(dra.Driver): ...

    dra.run(LedDriver)

These names are the public API; everything else may move. Importing this module loads no gRPC, no HTTP client
and no command line.
"""

from dradriver.driver import (
    AllocatedDevice,
    AllocationGone,
    AttachError,
    Attachment,
    BindingClaim,
    BindingDriver,
    Claim,
    Config,
    DeviceHealth,
    DeviceMetadata,
    Driver,
    DriverContext,
    Health,
    Inventory,
    NodeBindingDriver,
    PoolDriver,
    PreparedDevice,
)
from dradriver.errors import DraError, DriverError, InvalidObjectError, UsageError
from dradriver.model.cdi import ContainerEdits, DeviceNode, Hook, Mount
from dradriver.model.core.meta import Condition
from dradriver.model.core.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import NetworkData
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import (
    Capacity,
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Device,
    Taint,
    Version,
)
from dradriver.model.resource.pool import Pool
from dradriver.runner.entry import run
from dradriver.sysfs import numa_attribute, numa_node_of_cpu, pci_attributes

__all__ = [
    "AllocatedDevice",
    "AllocationGone",
    "AttachError",
    "Attachment",
    "BindingClaim",
    "BindingDriver",
    "Capacity",
    "CapacityRequestPolicy",
    "CapacityRequestPolicyRange",
    "Claim",
    "Condition",
    "Config",
    "ContainerEdits",
    "CounterConsumption",
    "CounterSet",
    "Device",
    "DeviceHealth",
    "DeviceMetadata",
    "DeviceNode",
    "DraError",
    "Driver",
    "DriverContext",
    "DriverError",
    "Health",
    "Hook",
    "InvalidObjectError",
    "Inventory",
    "Mount",
    "NetworkData",
    "NodeBindingDriver",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "Pool",
    "PoolDriver",
    "PreparedDevice",
    "Quantity",
    "Taint",
    "UsageError",
    "Version",
    "numa_attribute",
    "numa_node_of_cpu",
    "pci_attributes",
    "run",
]
