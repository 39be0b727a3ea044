"""Builds `status.allocation` of the claims."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from dradriver.allocator.features import Features
from dradriver.allocator.request.subrequests import Subrequest
from dradriver.allocator.supply.nodes import AllocationNode, node_selector
from dradriver.model.names import base_request
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import (
    Allocation,
    AllocationConfig,
    DeviceAllocation,
    DeviceId,
    DeviceResult,
    ResourceClaim,
)
from dradriver.model.resource.device import Device
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.recorded_groups import GroupsBySet
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["ChosenDevice", "build_allocations"]


class ChosenDevice(NamedTuple):
    """A device that was chosen for a subrequest.

    Attributes:
        subrequest: the subrequest.
        id: the device's name in the cluster: driver, pool and name.
        device: the published device. Only its content may be used, because it may be an equal device with other
            names.
        source: the slice of `device`. Its names must not be used either.
        consumed: the capacity that the share consumes; None if the device is allocated as a whole.
        groups: the device's compatibility groups by counter set; empty while the feature is off.
    """

    subrequest: Subrequest
    id: DeviceId
    device: Device
    source: ResourceSlice
    consumed: Mapping[str, Quantity] | None
    groups: GroupsBySet


def build_allocations(
    claims: Sequence[ResourceClaim],
    picks: Sequence[ChosenDevice],
    node: AllocationNode,
    features: Features,
    now: datetime | None,
) -> dict[str, Allocation]:
    """Return the allocations of a pod's claims, by UID (`namespace/name` if a claim has no UID).

    Args:
        claims: the claims.
        picks: the chosen devices, in the order of the requests that they serve.
        node: the node for which the devices were chosen.
        features: the enabled features.
        now: the timestamp of the allocations; None: no timestamp.
    """
    return {
        claim.metadata.uid or claim.ref: _allocation(
            claim, [pick for pick in picks if pick.subrequest.claim == index], node, features, now
        )
        for index, claim in enumerate(claims)
    }


def _allocation(
    claim: ResourceClaim,
    picks: Sequence[ChosenDevice],
    node: AllocationNode,
    features: Features,
    now: datetime | None,
) -> Allocation:
    owner = claim.metadata.uid or claim.ref
    return Allocation(
        devices=DeviceAllocation(
            results=[_result(pick, features, owner, index) for index, pick in enumerate(picks)],
            config=_list_config(claim, picks),
        ),
        node_selector=node_selector([(pick.device, pick.source) for pick in picks], node),
        allocation_timestamp=now,
    )


def _result(chosen: ChosenDevice, features: Features, owner: str, index: int) -> DeviceResult:
    subrequest, device_id, device, source, consumed, groups = chosen
    conditions = features.binding_conditions
    return DeviceResult(
        request=subrequest.name,
        driver=device_id.driver,
        pool=device_id.pool,
        device=device_id.device,
        admin_access=True if subrequest.admin else None,
        tolerations=list(subrequest.tolerations),
        binding_conditions=list(device.binding_conditions) if conditions else [],
        binding_failure_conditions=list(device.binding_failure_conditions) if conditions else [],
        share_id=None if consumed is None else _share_id(owner, index, device_id),
        consumed_capacity=dict(consumed) if consumed else {},
        skip_node_operations=list(source.spec.skip_node_operations),
        compatibility_groups=(
            {name: list(each) for name, each in groups.items()} if any(groups.values()) else {}
        ),
    )


def _share_id(owner: str, index: int, device: DeviceId) -> str:
    """Return a UUID (version 8) for a share, derived from the claim, the result's index and the device.

    Kubernetes generates a random UUID. This package uses no randomness, so a repeated computation gives the
    same allocation.
    """
    digest = bytearray(sha256("\0".join((owner, str(index), *device)).encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _list_config(claim: ResourceClaim, picks: Sequence[ChosenDevice]) -> list[AllocationConfig]:
    """Return the configuration that applies to the devices: first that of the classes, then that of the claim.

    The classes are in the order of the requests. Each class occurs once, with all requests that use it. An
    entry that applies to every request lists no requests.
    """
    users: dict[str, tuple[DeviceClass, list[str]]] = {}
    for pick in picks:
        device_class = pick.subrequest.device_class
        if device_class.spec.config:
            _, names = users.setdefault(device_class.metadata.name, (device_class, []))
            if pick.subrequest.name not in names:
                names.append(pick.subrequest.name)
    if not users and not claim.spec.devices.config:
        return []
    served = dict.fromkeys(pick.subrequest.name for pick in picks)
    of_classes = [
        AllocationConfig(source="FromClass", requests=_unless_all(names, served), opaque=config.opaque)
        for device_class, names in users.values()
        for config in device_class.spec.config
    ]
    of_claim = [
        AllocationConfig(
            source="FromClaim", requests=_unless_all(config.requests, served), opaque=config.opaque
        )
        for config in claim.spec.devices.config
        if not config.requests or any(_names(config.requests, name) for name in served)
    ]
    return of_classes + of_claim


def _names(requests: Sequence[str], served: str) -> bool:
    return served in requests or base_request(served) in requests


def _unless_all(requests: Sequence[str], served: Sequence[str] | dict[str, None]) -> list[str]:
    return [] if all(_names(requests, name) for name in served) else list(requests)
