"""What the fabric is asked for, for a device of a claim. Pure."""

from datetime import UTC, datetime
from typing import Final

import dradriver as dra
from dradriver_fabric_cxl.fabric import AttachmentIdentity, AttachRequest, MemoryRequest
from dradriver_fabric_cxl.names import ATTACH_FAILED, DRIVER
from dradriver_fabric_cxl.offer import MEMORY, FabricLayout, FabricOffer

__all__ = ["identify", "make_request"]

_NANO_OF_MEBIBYTE: Final = (1 << 20) * 10**9


def make_request(layout: FabricLayout, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> AttachRequest:
    """Return the request that attaches a device to the host of the claim's node.

    Args:
        layout: the devices and nodes of the fabric.
        claim: the claim.
        device: a device of the claim.

    Raises:
        AttachError: the fabric does not have the device, or the device's host is not one of the node.
    """
    offer = layout.find_offer(device.name)
    if offer is None:
        raise _refuse("DeviceGone", f"device {device.name}: the fabric no longer offers it")
    host = offer.host or layout.find_host(claim.node)
    if host is None or not claim.node or layout.find_node(host.id) != claim.node:
        # The host of a device can move to another node after the pool was published.
        raise _refuse("NoHost", f"device {device.name}: its host is not known to be one of node {claim.node}")
    allocated = "" if claim.allocated is None else _format_time(claim.allocated)
    identity = AttachmentIdentity(claim.uid, device.pool, device.name, allocated, device.share_id)
    return AttachRequest(identity, host.id, _find_target(offer, device))


def identify(attachment: dra.Attachment) -> AttachmentIdentity:
    """Return the identity under which the fabric has an attachment.

    Args:
        attachment: the attachment, as the SDK recorded it.
    """
    return AttachmentIdentity(
        attachment.claim_uid, attachment.pool, attachment.device, attachment.allocated, attachment.share_id
    )


def _find_target(offer: FabricOffer, device: dra.AllocatedDevice) -> MemoryRequest | str:
    if not offer.is_memory:
        return offer.source.id
    return MemoryRequest(offer.source.id, offer.mebibytes or _find_share(device))


def _find_share(device: dra.AllocatedDevice) -> int:
    """Return the mebibytes of a share of a domain; without a share, the claim has the whole domain."""
    names = (MEMORY, f"{DRIVER}/{MEMORY}")
    amounts = [device.consumed_capacity[name] for name in names if name in device.consumed_capacity]
    if not amounts and device.device is not None and MEMORY in device.device.capacity:
        amounts = [device.device.capacity[MEMORY].value]
    if not amounts:
        raise _refuse("NoSize", f"device {device.name}: the allocation has no amount of {MEMORY}")
    return amounts[0].nano // _NANO_OF_MEBIBYTE


def _format_time(moment: datetime) -> str:
    """Return the time as the SDK writes it in `Attachment.allocated`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _refuse(reason: str, message: str) -> dra.AttachError:
    return dra.AttachError(message, reason=reason, condition=ATTACH_FAILED, device_is_bad=False)
