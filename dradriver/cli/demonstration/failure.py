"""Shows what happens when a device cannot be attached: it is tainted, and the pod gets another device."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from dradriver.cli.demonstration.waiting import wait_for_object
from dradriver.kube import SLICES, Client
from dradriver.model.core.conditions import is_true
from dradriver.model.core.meta import Condition
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["PlanFault", "find_failure", "has_another_allocation", "load_fault_planner", "wait_for_taints"]

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


async def wait_for_taints(client: Client, driver: str, result: DeviceResult, *, after: str) -> list[str]:
    """Wait until a device has a taint, and return the keys of its taints.

    Args:
        client: client of the cluster.
        driver: name of the driver.
        result: the device.
        after: resource version before the taint.
    """

    def find(candidate: ResourceSlice) -> list[str]:
        spec = candidate.spec
        if spec.driver != driver or spec.pool.name != result.pool:
            return []
        return [taint.key for each in spec.devices if each.name == result.device for taint in each.taints]

    return find(
        await wait_for_object(client, SLICES, ResourceSlice, lambda each: bool(find(each)), after=after)
    )
