"""Monitors of devices that other claims may have."""

import dradriver as dra
from dradriver_gpu_mig.offer import GpuDeviceKind, GpuOffer
from dradriver_gpu_mig.prepare.dynamic_mig import find_placement
from dradriver_gpu_mig.prepare.results import PreparedResults

__all__ = ["prepare_admin_access"]


async def prepare_admin_access(
    results: PreparedResults, claim: dra.Claim, offer: GpuOffer | None
) -> dra.PreparedDevice:
    """Return the existing device for admin access, with the right to monitor all MIG devices of the node.

    No instance is created, and nothing is recorded.

    Args:
        results: makes the result.
        claim: the claim.
        offer: the device; None: it is gone.

    Raises:
        DraError: the driver of the node does not answer.
    """
    if offer is None:
        return dra.PreparedDevice()
    key = find_placement(offer)
    instance = offer.card.find_instance_at(key.profile, key.placement) if key else None
    mig = offer.mig or (instance.full_mig_device if instance else None)
    if mig is None and offer.kind is not GpuDeviceKind.GPU:
        return dra.PreparedDevice()  # also of a GPU for a virtual machine, which only one process can open
    return await results.make(claim, offer, mig, monitors=True)
