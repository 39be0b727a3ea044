"""dradriver: write a Kubernetes DRA driver by subclassing one class.

    import dradriver as dra

    class LedDriver(dra.Driver): ...

    dra.run(LedDriver)

These names are the public API; everything else may move. A name is imported at its first use, so that
`dradriver --version` loads none of them. None of them loads gRPC, an HTTP client or the command line.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dradriver.driver import (
        AllocatedDevice,
        AllocationError,
        AllocationGone,
        AttachError,
        Attachment,
        BindingClaim,
        BindingDriver,
        Claim,
        Config,
        ControllerAllocationResult,
        ControllerDevice,
        ControllerDriver,
        DeviceHealth,
        DeviceMetadata,
        Driver,
        DriverContext,
        Health,
        Inventory,
        NodeBindingDriver,
        NodeReport,
        PendingClaim,
        PendingPod,
        PendingRequest,
        PoolDriver,
        PreparedDevice,
        RecordedClaim,
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
    "AllocationError",
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
    "ControllerAllocationResult",
    "ControllerDevice",
    "ControllerDriver",
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
    "NodeReport",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "PendingClaim",
    "PendingPod",
    "PendingRequest",
    "Pool",
    "PoolDriver",
    "PreparedDevice",
    "Quantity",
    "RecordedClaim",
    "Taint",
    "UsageError",
    "Version",
    "numa_attribute",
    "numa_node_of_cpu",
    "pci_attributes",
    "run",
]

_MODULES: Final = {
    name: module
    for module, names in {
        "dradriver.driver": (
            "AllocatedDevice",
            "AllocationError",
            "AllocationGone",
            "AttachError",
            "Attachment",
            "BindingClaim",
            "BindingDriver",
            "Claim",
            "Config",
            "ControllerAllocationResult",
            "ControllerDevice",
            "ControllerDriver",
            "DeviceHealth",
            "DeviceMetadata",
            "Driver",
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
        ),
        "dradriver.errors": ("DraError", "DriverError", "InvalidObjectError", "UsageError"),
        "dradriver.model.cdi": ("ContainerEdits", "DeviceNode", "Hook", "Mount"),
        "dradriver.model.core.meta": ("Condition",),
        "dradriver.model.core.node_selector": ("NodeSelector", "NodeSelectorRequirement", "NodeSelectorTerm"),
        "dradriver.model.quantity": ("Quantity",),
        "dradriver.model.resource.claim": ("NetworkData",),
        "dradriver.model.resource.counters": ("CounterConsumption", "CounterSet"),
        "dradriver.model.resource.device": (
            "Capacity",
            "CapacityRequestPolicy",
            "CapacityRequestPolicyRange",
            "Device",
            "Taint",
            "Version",
        ),
        "dradriver.model.resource.pool": ("Pool",),
        "dradriver.runner.entry": ("run",),
        "dradriver.sysfs": ("numa_attribute", "numa_node_of_cpu", "pci_attributes"),
    }.items()
    for name in names
}
"""The module of each public name; the same as the imports above, which only type checkers follow."""


def __getattr__(name: str) -> object:
    """Import a public name; called once for each name, at its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, including those that are not imported yet."""
    return sorted({*globals(), *__all__})
