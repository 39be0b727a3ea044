"""Builds `status.allocation` of the claims."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

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

__all__ = ["ChosenDevice", "allocations_of"]


@dataclass(frozen=True, slots=True)
class ChosenDevice:
    """A device that was chosen for a subrequest.

    Attributes:
        ask: the subrequest.
        id: the device's name.
        device: the device as published, except for names.
        source: its slice, except for names.
        consumed: the capacity that the share consumes; None if the device is allocated as a whole.
        groups: its compatibility groups by counter set; empty while the feature is off.
    """

    ask: Subrequest
    id: DeviceId
    device: Device
    source: ResourceSlice
    consumed: Mapping[str, Quantity] | None
    groups: GroupsBySet


def allocations_of(
    claims: Sequence[ResourceClaim],
    picks: Sequence[ChosenDevice],
    node: AllocationNode,
    features: Features,
    now: datetime | None,
) -> dict[str, Allocation]:
    """Return the allocations of a pod's claims, by UID (`namespace/name` if a claim has no UID).

    Args:
        claims: the claims.
        picks: the chosen devices, in the order of their requests.
        node: the node of the devices.
        features: the enabled features.
        now: the timestamp; None leaves it out.
    """
    return {
        claim.metadata.uid or claim.ref: _allocation(
            claim, [pick for pick in picks if pick.ask.claim == index], node, features, now
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
            config=list(_config(claim, picks)),
        ),
        node_selector=node_selector(((pick.device, pick.source) for pick in picks), node),
        allocation_timestamp=now,
    )


def _result(chosen: ChosenDevice, features: Features, owner: str, index: int) -> DeviceResult:
    ask = chosen.ask
    share_id = None if chosen.consumed is None else _share_id(owner, index, chosen.id)
    conditions = features.binding_conditions
    return DeviceResult(
        request=ask.name,
        driver=chosen.id.driver,
        pool=chosen.id.pool,
        device=chosen.id.device,
        admin_access=True if ask.admin else None,
        tolerations=list(ask.tolerations),
        binding_conditions=list(chosen.device.binding_conditions) if conditions else [],
        binding_failure_conditions=list(chosen.device.binding_failure_conditions) if conditions else [],
        share_id=share_id,
        consumed_capacity=dict(chosen.consumed or {}),
        skip_node_operations=list(chosen.source.spec.skip_node_operations),
        compatibility_groups=(
            {name: list(groups) for name, groups in chosen.groups.items()}
            if any(chosen.groups.values())
            else {}
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


def _config(claim: ResourceClaim, picks: Sequence[ChosenDevice]) -> Iterator[AllocationConfig]:
    """Yield the configuration that applies: classes in the order of the requests, then the claim.

    Each class occurs once, with all requests that use it. An entry that covers every request names none.
    """
    served = dict.fromkeys(pick.ask.name for pick in picks)
    users: dict[str, tuple[DeviceClass, list[str]]] = {}
    for pick in picks:
        device_class = pick.ask.device_class
        _, names = users.setdefault(device_class.metadata.name, (device_class, []))
        if pick.ask.name not in names:
            names.append(pick.ask.name)
    for device_class, names in users.values():
        for class_config in device_class.spec.config:
            yield AllocationConfig(
                source="FromClass", requests=_unless_all(names, served), opaque=class_config.opaque
            )
    for config in claim.spec.devices.config:
        if not config.requests or any(_names(config.requests, name) for name in served):
            yield AllocationConfig(
                source="FromClaim", requests=_unless_all(config.requests, served), opaque=config.opaque
            )


def _names(requests: Sequence[str], served: str) -> bool:
    return served in requests or base_request(served) in requests


def _unless_all(requests: Sequence[str], served: Sequence[str] | dict[str, None]) -> list[str]:
    return [] if all(_names(requests, name) for name in served) else list(requests)
