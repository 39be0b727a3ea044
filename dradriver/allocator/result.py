"""What is written into `status.allocation` of the claims."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import sha256

from dradriver.allocator.features import Features
from dradriver.allocator.nodes import Node, node_selector
from dradriver.allocator.search import Pick
from dradriver.allocator.snapshot import snapshot_of
from dradriver.allocator.supply import Supply
from dradriver.model.claim import (
    Allocation,
    AllocationConfig,
    DeviceAllocation,
    DeviceId,
    DeviceResult,
    ResourceClaim,
)
from dradriver.model.deviceclass import DeviceClass
from dradriver.model.names import base_request

__all__ = ["allocation_of"]


def allocation_of(
    claim: ResourceClaim,
    picks: Sequence[Pick],
    supply: Supply,
    node: Node,
    features: Features,
    now: datetime | None,
) -> Allocation:
    """The allocation of one claim, from the devices that were picked for it, in the order of its requests."""
    devices = [(supply.devices[device].device, supply.devices[device].source) for _, device in picks]
    config = list(_config(claim, picks))
    if features.compatibility_groups:
        config += snapshot_of([device for device, _ in devices], len(config))
    owner = claim.metadata.uid or claim.ref
    return Allocation(
        devices=DeviceAllocation(
            results=[_result(pick, supply, features, owner, index) for index, pick in enumerate(picks)],
            config=config,
        ),
        node_selector=node_selector(devices, node),
        allocation_timestamp=now,
    )


def _result(pick: Pick, supply: Supply, features: Features, owner: str, index: int) -> DeviceResult:
    plan, position = pick
    chosen = supply.devices[position]
    share_id = _share_id(owner, index, chosen.id) if supply.shared_out[position] is not None else None
    conditions = features.binding_conditions
    return DeviceResult(
        request=plan.ask.name,
        driver=chosen.id.driver,
        pool=chosen.id.pool,
        device=chosen.id.device,
        admin_access=True if plan.ask.admin else None,
        tolerations=list(plan.ask.tolerations),
        binding_conditions=list(chosen.device.binding_conditions) if conditions else [],
        binding_failure_conditions=list(chosen.device.binding_failure_conditions) if conditions else [],
        share_id=share_id,
        consumed_capacity=dict(plan.candidates.shares[position]) if share_id else {},
        skip_node_operations=list(chosen.source.spec.skip_node_operations),
    )


def _share_id(owner: str, index: int, device: DeviceId) -> str:
    """A UUID (version 8) for a share: the same for the same result of the same claim, and for no other.

    Kubernetes draws a random one. This package draws nothing: an allocation that is computed again is the same.
    """
    digest = bytearray(sha256("\0".join((owner, str(index), *device)).encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _config(claim: ResourceClaim, picks: Sequence[Pick]) -> Iterator[AllocationConfig]:
    """Configuration of the classes in the order of the requests, then of the claim, as far as it applies.

    Each class comes once, with all requests that use it. What covers every request says so by naming none.
    """
    served = dict.fromkeys(plan.ask.name for plan, _ in picks)
    users: dict[str, tuple[DeviceClass, list[str]]] = {}
    for plan, _ in picks:
        device_class = plan.ask.device_class
        _, names = users.setdefault(device_class.metadata.name, (device_class, []))
        if plan.ask.name not in names:
            names.append(plan.ask.name)
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
