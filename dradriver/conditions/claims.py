"""The claim in the form that a binding driver receives."""

from collections.abc import Callable, Iterator

from dradriver.conditions.attachment_diff import allocated_node, attachments_of
from dradriver.driver import AllocatedDevice, Attaching, BindingClaim, ClaimConditions
from dradriver.driver.config import Config, decode_config
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.device import Device

__all__ = ["binding_claim"]


def binding_claim(
    claim: ResourceClaim,
    driver: Attaching,
    device: Callable[[str, str], Device | None],
    conditions: ClaimConditions,
) -> BindingClaim:
    """Return the claim with the driver's devices that have binding conditions.

    Raises:
        InvalidObjectError: the driver does not accept its opaque configuration.
    """
    allocation = claim.allocation
    devices = [
        AllocatedDevice(
            request=result.request,
            pool=result.pool,
            name=result.device,
            share_id=result.share_id or "",
            consumed_capacity=result.consumed_capacity,
            configs=tuple(_configs(claim, result, driver)),
            device=device(result.pool, result.device),
        )
        for result in attachments_of(claim, driver.name).values()
    ]
    return BindingClaim(
        uid=claim.metadata.uid,
        namespace=claim.metadata.namespace,
        name=claim.metadata.name,
        node=allocated_node(allocation.node_selector) if allocation else "",
        allocated=allocation.allocation_timestamp if allocation else None,
        devices=tuple(devices),
        conditions=conditions,
    )


def _configs(claim: ResourceClaim, result: DeviceResult, driver: Attaching) -> Iterator[Config]:
    """Yield configurations in the order of precedence: classes first, then the claim, each in API order."""
    found = claim.allocation.devices.config if claim.allocation else []
    for config in sorted(found, key=lambda each: each.source != "FromClass"):
        if config.opaque is None or config.opaque.driver != driver.name or not config.covers(result.request):
            continue
        subject = f"claim {claim.ref}: opaque parameters for request {result.request}"
        yield decode_config(bytes(config.opaque.parameters), driver.configs, subject, strict=True)
