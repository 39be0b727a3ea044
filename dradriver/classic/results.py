"""Check what the methods of a `ControllerDriver` return, and turn it into the values that the API stores."""

from collections import Counter as Tally
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from dradriver.driver import AllocationError, ControllerAllocationResult, ControllerDevice, PendingClaim
from dradriver.errors import DriverError, InvalidObjectError, Problem
from dradriver.model import names
from dradriver.model.classic.controlled_claims import ControlledClaim
from dradriver.model.classic.handles import split_handle
from dradriver.model.classic.names import GROUP, MAX_HANDLE_BYTES
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.resource.claim import (
    MAX_RESULTS,
    Allocation,
    AllocationConfig,
    DeviceAllocation,
    DeviceResult,
)
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["build_allocation", "check_allocated", "check_uids", "check_unsuitable"]

_MAX_CONFIGS: Final = 64
"""Maximum number of configurations in an allocation (`DeviceConfigMaxSize` of results)."""


def check_allocated(
    driver: str, returned: object, claims: Sequence[PendingClaim]
) -> dict[str, ControllerAllocationResult | AllocationError]:
    """Return what `allocate()` returned, with an error for each claim that is missing.

    Raises:
        DriverError: the value is not a mapping of UIDs of the claims to results or errors.
    """
    subject = f"driver {driver}: allocate() returned"
    if not isinstance(returned, Mapping):
        raise DriverError(f"{subject} {type(returned).__name__}, must be a mapping by UID of the claim")
    if unknown := set(returned) - {claim.uid for claim in claims}:
        raise DriverError(f"{subject} a result for {_first(unknown)!r}, which is the UID of no given claim")
    found: dict[str, ControllerAllocationResult | AllocationError] = {}
    for claim in claims:
        result = returned.get(claim.uid, AllocationError("allocate() returned no result for the claim"))
        if not isinstance(result, ControllerAllocationResult | AllocationError):
            rule = "must be a ControllerAllocationResult or an AllocationError"
            raise DriverError(f"{subject} {result!r} for claim {claim}, {rule}")
        found[claim.uid] = result
    return found


def check_unsuitable(
    driver: str, returned: object, claims: Sequence[PendingClaim], nodes: Sequence[str]
) -> dict[str, list[str]]:
    """Return what `unsuitable_nodes()` returned: for each claim, its unsuitable nodes in the order of `nodes`.

    Nodes that were not asked for are left out.

    Raises:
        DriverError: the value is not a mapping of UIDs of the claims to collections of names.
    """
    subject = f"driver {driver}: unsuitable_nodes() returned"
    if not isinstance(returned, Mapping):
        raise DriverError(f"{subject} {type(returned).__name__}, must be a mapping by UID of the claim")
    if unknown := set(returned) - {claim.uid for claim in claims}:
        raise DriverError(f"{subject} nodes for {_first(unknown)!r}, which is the UID of no given claim")
    found = {}
    for claim in claims:
        unsuitable = returned.get(claim.uid, ())
        if isinstance(unsuitable, str) or not isinstance(unsuitable, Collection):
            raise DriverError(f"{subject} {unsuitable!r} for claim {claim}, must be names of nodes")
        found[claim.uid] = [node for node in nodes if node in unsuitable]
    return found


def check_uids(driver: str, returned: object) -> set[str]:
    """Return what `allocations()` returned; empty for None.

    Raises:
        DriverError: the value is not a collection of texts.
    """
    if returned is None:
        return set()
    if isinstance(returned, str | Mapping) or not isinstance(returned, Iterable):
        kind = type(returned).__name__
        raise DriverError(f"driver {driver}: allocations() returned {kind}, must be UIDs of claims")
    uids = set(returned)
    if wrong := [each for each in uids if not (isinstance(each, str) and each)]:
        raise DriverError(f"driver {driver}: allocations() returned {wrong[0]!r}, must be the UID of a claim")
    return uids


def build_allocation(
    controlled: ControlledClaim,
    result: ControllerAllocationResult,
    node: str | None,
    now: datetime,
    classes: Mapping[str, DeviceClass],
) -> Allocation:
    """Return the allocation to write into a claim.

    Like the scheduler, it copies the opaque configuration of the classes and of the claim for the kubelet
    plugins of the result. The handles are between them, as entries of the class: users cannot write those.

    Args:
        controlled: the claim.
        result: how the driver has allocated the claim.
        node: the selected node; None for an immediate claim.
        now: the time of the allocation.
        classes: all classes by name.

    Raises:
        InvalidObjectError: the API server would not accept the allocation, or a kubelet could not use it. The
            error lists all problems.
    """
    claim = controlled.claim
    problems = list(_find_problems(controlled, result, node))
    if problems:
        raise InvalidObjectError(f"claim {claim.ref}: result of allocate()", problems)
    config = [
        *_class_configs(controlled, result, classes),
        *_handles(claim.metadata.uid, result),
        *_claim_configs(controlled, result),
    ]
    if len(config) > _MAX_CONFIGS:
        rule = f"{len(config)} entries of handles and configuration: must be at most {_MAX_CONFIGS}"
        raise InvalidObjectError(f"claim {claim.ref}: result of allocate()", [Problem("handles", rule)])
    results = [
        DeviceResult(request=each.request, driver=each.driver, pool=each.pool, device=each.name)
        for each in result.devices
    ]
    return Allocation(
        devices=DeviceAllocation(results=results, config=config),
        node_selector=_select_nodes(result, node),
        allocation_timestamp=now,
    )


def _select_nodes(result: ControllerAllocationResult, node: str | None) -> NodeSelector | None:
    if result.on_any_node:
        return None
    if result.node_selector is not None:
        return result.node_selector
    return NodeSelector.for_node(node) if node else None


def _find_problems(
    controlled: ControlledClaim, result: ControllerAllocationResult, node: str | None
) -> Iterator[Problem]:
    if len(result.devices) > MAX_RESULTS:
        yield Problem("devices", f"{len(result.devices)} devices: must be at most {MAX_RESULTS}")
    requests = [request.name for request in controlled.requests]
    seen: Tally[tuple[str, str, str]] = Tally()
    for index, device in enumerate(result.devices):
        yield from (problem.under(f"devices[{index}]") for problem in _find_device_problems(device, requests))
        seen[device.driver, device.pool, device.name] += 1
        if seen[device.driver, device.pool, device.name] == 2:
            yield Problem(f"devices[{index}]", "is in the result twice")
    drivers = {device.driver for device in result.devices}
    for driver, data in result.handles.items():
        if driver not in drivers:
            yield Problem(
                f"handles[{driver}]", "has no device in the result, so its kubelet plugin is not called"
            )
        if len(data) > MAX_HANDLE_BYTES:
            yield Problem(f"handles[{driver}]", f"{len(data)} bytes: must be at most {MAX_HANDLE_BYTES} bytes")
    if result.on_any_node and result.node_selector is not None:
        yield Problem("on_any_node", "must not be True together with node_selector")
    elif node and result.node_selector is not None and not _may_select(result.node_selector, node):
        yield Problem("node_selector", f"must select the node {node}, for which the claim is allocated")


def _may_select(selector: NodeSelector, node: str) -> bool:
    """Return whether the selector can select the node. The controller reads no nodes, so it knows no labels."""
    fields = {"metadata.name": node}
    return any(
        bool(term.match_expressions or term.match_fields)
        and all(each.matches(fields) for each in term.match_fields)
        for term in selector.node_selector_terms
    )


def _find_device_problems(device: ControllerDevice, requests: Sequence[str]) -> Iterator[Problem]:
    if device.request not in requests:
        yield Problem("request", f"{device.request!r} must be a request of the claim: {', '.join(requests)}")
    for field, rule in (
        ("driver", names.driver_name(device.driver)),
        ("pool", names.pool_name(device.pool)),
        ("name", names.dns_label(device.name)),
    ):
        if rule:
            yield Problem(field, rule)
    if device.driver == GROUP:
        yield Problem("driver", f"must be a kubelet plugin, not {GROUP}")


def _handles(claim_uid: str, result: ControllerAllocationResult) -> Iterator[AllocationConfig]:
    """Yield the handles; a shareable claim has one for each plugin, because the flag is in the handle."""
    handles = dict(result.handles)
    if result.shareable:
        handles = {device.driver: b"" for device in result.devices} | handles
    for driver, data in sorted(handles.items()):
        yield from split_handle(driver, claim_uid, data, shareable=result.shareable)


def _class_configs(
    controlled: ControlledClaim, result: ControllerAllocationResult, classes: Mapping[str, DeviceClass]
) -> Iterator[AllocationConfig]:
    drivers = {device.driver for device in result.devices}
    for request in controlled.requests:
        device_class = classes.get(request.device_class)
        for entry in device_class.spec.config if device_class else ():
            if entry.opaque is not None and entry.opaque.driver in drivers:
                yield AllocationConfig(source="FromClass", requests=[request.name], opaque=entry.opaque)


def _claim_configs(
    controlled: ControlledClaim, result: ControllerAllocationResult
) -> Iterator[AllocationConfig]:
    drivers = {device.driver for device in result.devices}
    for entry in controlled.claim.spec.devices.config:
        if entry.opaque is not None and entry.opaque.driver in drivers:
            yield AllocationConfig(source="FromClaim", requests=entry.requests, opaque=entry.opaque)


def _first(values: Iterable[object]) -> object:
    return min(values, key=str)
