"""The claim that a binding driver receives, and the check of the attachments that it returns."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from dradriver.conditions.attachment_diff import allocated_node, attachments_of
from dradriver.driver import AllocatedDevice, Attaching, Attachment, BindingClaim, ClaimConditions
from dradriver.driver.configuration.config import Config, decode_config
from dradriver.driver.source_locations import format_location
from dradriver.errors import DriverError
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.device import Device

__all__ = ["binding_claim", "check_attachments"]


def binding_claim(
    claim: ResourceClaim,
    driver: Attaching,
    device: Callable[[str, str], Device | None],
    conditions: ClaimConditions,
) -> BindingClaim:
    """Return the claim with those of the driver's devices that have binding conditions.

    Args:
        claim: an allocated claim.
        driver: the driver. Its `configs` are the types of opaque parameters.
        device: takes the names of a pool and a device, and returns the device as `discover()` last returned it.
        conditions: writes the conditions that the driver reports.

    Raises:
        InvalidObjectError: the claim has opaque configuration for the driver that the driver does not accept.
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
            data=status.data_object if (status := claim.device_status(result.id)) is not None else None,
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
    configs = claim.allocation.devices.config if claim.allocation else []
    for config in sorted(configs, key=lambda each: each.source != "FromClass"):
        if config.opaque is None or config.opaque.driver != driver.name or not config.covers(result.request):
            continue
        subject = f"claim {claim.ref}: opaque parameters for request {result.request}"
        yield decode_config(bytes(config.opaque.parameters), driver.configs, subject, strict=True)


def check_attachments(driver: str, returned: object, place: str = "") -> list[Attachment]:
    """Return the attachments that `attachments()` returned, sorted.

    Args:
        driver: the driver's name.
        returned: the return value. None: no attachments.
        place: file and line of the method, for messages.

    Raises:
        DriverError: the value is not a list of attachments. The message has the index of the wrong item.
    """
    if returned is None:
        return []
    subject = f"driver {driver}: attachments() returned"
    if isinstance(returned, str | Mapping) or not isinstance(returned, Iterable):
        raise DriverError(
            f"{subject} {type(returned).__name__}, must be a list of Attachment{format_location(place)}"
        )
    attachments = list(returned)
    for index, each in enumerate(attachments):
        if not isinstance(each, Attachment):
            raise DriverError(
                f"{subject} {each!r} at index {index}, must be an Attachment{format_location(place)}"
            )
    return sorted(attachments)
