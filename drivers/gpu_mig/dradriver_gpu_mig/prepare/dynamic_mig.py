"""MIG devices that are created for claims."""

import dradriver as dra
from dradriver_gpu_mig.instances import DeviceRecord, Holder, ProfilePlacement
from dradriver_gpu_mig.node import GpuNode
from dradriver_gpu_mig.offer import GpuDeviceKind, GpuOffer
from dradriver_gpu_mig.prepare.mig_mode import switch_mig
from dradriver_gpu_mig.prepare.results import PreparedResults
from dradriver_gpu_mig.prepare.sharing import select_config

__all__ = ["DynamicMigDevices", "find_placement"]


class DynamicMigDevices:
    """Creates MIG devices for claims, and destroys them.

    Args:
        node: the cards and the records.
        results: makes the results.
    """

    def __init__(self, node: GpuNode, results: PreparedResults) -> None:
        self._node = node
        self._results = results

    async def prepare(
        self, claim: dra.Claim, device: dra.AllocatedDevice, offer: GpuOffer
    ) -> dra.PreparedDevice:
        """Create the MIG device of an offer, according to the table in `instances.steps`.

        Args:
            claim: the claim.
            device: the device of the claim.
            offer: the device as it is offered now.

        Raises:
            DraError: the device is in use, MIG cannot be switched on, or the card rejects a call.
        """
        select_config(device, is_whole_gpu=False)
        record = DeviceRecord(
            device=device.name,
            holders=(Holder(claim=claim.uid, shared=bool(device.share_id)),),
            gpu=offer.card.gpu.uuid,
            instance=find_placement(offer),
        )
        offer = await switch_mig(self._node, claim.uid, offer, enabled=True)
        mig = await self._node.reconciler.create(record)
        return await self._results.make(claim, offer, mig)

    async def unprepare(self, record: DeviceRecord, claim: str) -> None:
        """Destroy the MIG device of a record, if no other claim has it.

        Args:
            record: the record.
            claim: UID of the claim.

        Raises:
            DraError: a process uses the instance, or the card rejects a call.
        """
        await self._node.reconciler.destroy(record, claim, self._node.settings.destroy_seconds)


def find_placement(offer: GpuOffer) -> ProfilePlacement | None:
    """Return where the instance of a device is created; None for a device that is not created.

    Args:
        offer: the device.
    """
    if offer.kind is not GpuDeviceKind.DYNAMIC_MIG or offer.profile is None or offer.placement is None:
        return None
    return ProfilePlacement(offer.profile.id, offer.placement)
