"""Attach devices whose binding conditions the API server, or an older scheduler, dropped.

The allocation result of such a device has no conditions, so the pod is bound at once. `DeclaredConditions.fill`
adds the conditions that `discover()` declares, so that all other modules treat the result like any other. The
published device has an attribute, so that its node waits (`node.devices.attachment_wait`). `find_decisions` has
the scheduler's part: it decides from the conditions whether the node may prepare the device.

| side effect                     | if the process dies right after it                                      |
|---------------------------------|--------------------------------------------------------------------------|
| the declared conditions written | the next process continues; the conditions are still False               |
| the decision written            | nothing is left to do until the claim is deallocated; the node reads it  |
"""

from collections.abc import Callable, Collection, Sequence

from msgspec.structs import replace

from dradriver.conditions.attachment_diff import recorded_attachments
from dradriver.model.core.conditions import is_true
from dradriver.model.core.meta import Condition
from dradriver.model.resource.attachments import (
    ATTACHED_ON_ALLOCATION,
    is_given_up,
    prepare_allowed,
    prepare_refused,
)
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.device import Device, as_attributes
from dradriver.model.resource.pool import Pool

__all__ = ["DeclaredConditions", "fill_on_node", "find_decisions", "mark_devices"]


class DeclaredConditions:
    """The binding conditions that a pool driver declares for its devices.

    Args:
        driver: the driver's name.
        device: returns a device as `discover()` last returned it. None: it is unknown, or not known yet.
    """

    def __init__(self, driver: str, device: Callable[[str, str], Device | None]) -> None:
        self._driver = driver
        self._device = device

    def fill(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the claim; results without conditions have those that their devices declare.

        A result whose device is unknown stays without conditions: nothing is attached for it until `discover()`
        returns the device, and nothing that is recorded is detached.
        """
        return _replace_results(claim, self._driver, self._fill_result)

    def _fill_result(self, result: DeviceResult) -> DeviceResult:
        device = self._device(result.pool, result.device)
        if device is None or not device.binding_conditions:
            return result
        refused = prepare_refused(self._driver)
        return replace(
            result,
            binding_conditions=list(device.binding_conditions),
            binding_failure_conditions=[*device.binding_failure_conditions, refused],
        )


def fill_on_node(
    claim: ResourceClaim, driver: str, known: Collection[str], is_shared: Callable[[str], bool]
) -> ResourceClaim:
    """Return the claim as the driver on a node sees it; results get the conditions that the pool driver wrote.

    A published device does not show its conditions if the API server drops them. The pool driver writes all of
    them to the claim's status, as False, before the first one becomes True.

    Args:
        claim: the claim.
        driver: the driver's name.
        known: the conditions that the node's driver reads or sets (`attach_after`, `own_conditions`).
        is_shared: returns whether a pool is published by a pool driver.
    """

    def fill(result: DeviceResult) -> DeviceResult:
        status = claim.device_status(result.id)
        kinds = [each.type for each in status.conditions if each.type in known] if status is not None else []
        if not kinds or not is_shared(result.pool):
            return result
        return replace(result, binding_conditions=kinds, binding_failure_conditions=[prepare_refused(driver)])

    return _replace_results(claim, driver, fill)


def _replace_results(
    claim: ResourceClaim, driver: str, fill: Callable[[DeviceResult], DeviceResult]
) -> ResourceClaim:
    """Return the claim with changed results; only results of the driver without conditions are changed."""
    allocation = claim.allocation
    if allocation is None:
        return claim
    results = [
        fill(each) if each.driver == driver and not each.binding_conditions and not each.admin_access else each
        for each in claim.results
    ]
    if all(new is old for new, old in zip(results, claim.results, strict=True)):
        return claim
    devices = replace(allocation.devices, results=results)
    return replace(claim, status=replace(claim.status, allocation=replace(allocation, devices=devices)))


def find_decisions(claim: ResourceClaim, driver: str) -> list[tuple[DeviceResult, list[Condition]]]:
    """Return the conditions that must be written for the claim's node, with the devices.

    Args:
        claim: the claim, filled (`DeclaredConditions.fill`).
        driver: the driver's name.
    """
    if is_given_up(claim):
        return []
    results = recorded_attachments(claim, driver).values()
    decided = ((result, _decide(claim, result)) for result in results)
    return [(result, conditions) for result, conditions in decided if conditions]


def _decide(claim: ResourceClaim, result: DeviceResult) -> list[Condition]:
    allowed, refused = prepare_allowed(result.driver), prepare_refused(result.driver)
    status = claim.device_status(result.id)
    conditions: Sequence[Condition] = status.conditions if status is not None else []
    failures = result.binding_failure_conditions
    if refused not in failures or is_true(conditions, refused):
        return []
    for each in conditions:
        if each.type in failures and each.status == "True":
            return [Condition(type=refused, status="True", reason=each.reason, message=each.message)]
    if is_true(conditions, allowed):
        return []
    if all(is_true(conditions, kind) for kind in result.binding_conditions):
        return [Condition(type=allowed, status="True", reason="Ready")]
    written = {each.type for each in conditions}
    missing = [kind for kind in result.binding_conditions if kind not in written]
    return [Condition(type=kind, status="False", reason="Attaching") for kind in missing]


def mark_devices(pools: Sequence[Pool], discovered: Sequence[Pool]) -> tuple[list[Pool], list[str]]:
    """Mark the devices without binding conditions that the driver attaches on allocation, so that nodes wait.

    A device with `binds_to_node` is omitted. The API server drops this field together with the conditions, so
    its allocations would name no node to attach it to.

    Args:
        pools: the driver's fallback layout.
        discovered: the pools as `discover()` last returned them.

    Returns:
        The layout to publish, and the names of the omitted devices.
    """
    declared = {
        (pool.name, device.name): device
        for pool in discovered
        for device in pool.devices
        if device.binding_conditions
    }
    omitted: list[str] = []

    def mark(pool: Pool) -> Pool:
        devices = []
        for device in pool.devices:
            twin = declared.get((pool.name, device.name))
            if twin is None or device.binding_conditions:
                devices.append(device)
            elif twin.binds_to_node:
                omitted.append(device.name)
            else:
                added = as_attributes({ATTACHED_ON_ALLOCATION: True})
                devices.append(replace(device, attributes={**device.attributes, **added}))
        return replace(pool, devices=tuple(devices))

    return [mark(pool) for pool in pools], omitted
