"""Shows what happens when a device cannot be attached: it is tainted, and the pod gets another device."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from dradriver.errors import DraError
from dradriver.kube import SLICES, Client
from dradriver.model.core.conditions import is_true
from dradriver.model.core.meta import Condition
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["PlanFault", "find_failure", "has_another_allocation", "list_taints", "load_fault_planner"]

PlanFault: TypeAlias = Callable[[Path], str]
"""Makes the next attachment of the simulated hardware fail. Blocking.

It takes the folder that the driver's processes share, and returns what will fail, for people.
"""


def load_fault_planner(function_path: str) -> PlanFault:
    """Return the function of a driver's package that plans a failure.

    Args:
        function_path: the function, as `module:function`.
    """
    module, _, name = function_path.partition(":")
    planner: PlanFault = getattr(import_module(module), name)
    return planner


def find_failure(claim: ResourceClaim) -> Condition | None:
    """Return the binding failure condition of the claim that is True; None if there is none.

    Args:
        claim: an allocated claim.
    """
    for result in claim.results:
        status = claim.device_status(result.id)
        conditions = status.conditions if status is not None else []
        for kind in result.binding_failure_conditions:
            if is_true(conditions, kind):
                return next(each for each in conditions if each.type == kind)
    return None


def has_another_allocation(claim: ResourceClaim, before: ResourceClaim) -> bool:
    """Return whether the claim has lost the allocation that it had before.

    Args:
        claim: the claim now.
        before: the claim when it was allocated.
    """
    old, new = before.allocation, claim.allocation
    return old is None or new is None or old.allocation_timestamp != new.allocation_timestamp


async def list_taints(client: Client, driver: str, result: DeviceResult) -> list[str]:
    """Return the keys of the published taints of a device.

    Args:
        client: client of the cluster.
        driver: name of the driver.
        result: the device.

    Raises:
        DraError: the device has no taint.
    """
    slices = (await client.list(SLICES, into=ResourceSlice)).items
    keys = [
        taint.key
        for each in slices
        if each.spec.driver == driver and each.spec.pool.name == result.pool
        for device in each.spec.devices
        if device.name == result.device
        for taint in device.taints
    ]
    if not keys:
        raise DraError(f"device {result.device} of pool {result.pool} failed, and has no taint")
    return keys
