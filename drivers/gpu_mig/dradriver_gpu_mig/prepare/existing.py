"""Whole GPUs, and MIG devices that exist already: claims only change settings of the GPU.

Settings are idempotent: setting or restoring them twice has the same result as doing so once. Several claims
may have a device that is offered in shares. Each of them is a holder in the device's record.

| the process dies after | the next process finds | and continues with |
|---|---|---|
| the claim is recorded as a holder | the record | prepare: sets the settings; unprepare: restores them |
| a setting is changed | the record, with the earlier compute mode | the same |
| a setting is restored | the record, with the claim | unprepare: restores it once more |
| the claim is removed from the record | the record of the other holders, or none | nothing |
"""

import asyncio
import logging
from typing import Final

from msgspec.structs import replace

import dradriver as dra
from dradriver_gpu_mig.card import GpuLostError, InvalidArgumentError, NotSupportedError
from dradriver_gpu_mig.instances import DeviceRecord, Holder, RecordState
from dradriver_gpu_mig.node import GpuNode
from dradriver_gpu_mig.offer import GpuDeviceKind, GpuOffer
from dradriver_gpu_mig.prepare.mig_mode import switch_mig
from dradriver_gpu_mig.prepare.results import PreparedResults
from dradriver_gpu_mig.prepare.sharing import (
    GpuSettingsOfClaim,
    apply_settings,
    merge_holder,
    read_settings,
    restore_settings,
    select_config,
)

__all__ = ["ExistingDevices"]

_log: Final = logging.getLogger(__name__)


class ExistingDevices:
    """Applies the settings of claims to GPUs, and restores them.

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
        """Record that a claim has the device, and apply its settings.

        Args:
            claim: the claim.
            device: the device of the claim.
            offer: the device as it is offered now.

        Raises:
            DraError: the device is in use, its other holders need other settings, or the card rejects a call.
        """
        is_whole_gpu = offer.kind is GpuDeviceKind.GPU
        config = select_config(device, is_whole_gpu=is_whole_gpu)
        wanted = read_settings(device.name, config, shared=bool(device.share_id))
        offer = await switch_mig(self._node, claim.uid, offer, enabled=not is_whole_gpu)
        await self._hold(device, offer.card.gpu.uuid, claim.uid, wanted)
        return await self._results.make(claim, offer, offer.mig)

    async def unprepare(self, record: DeviceRecord, claim: str) -> None:
        """Restore what the claim has set, and remove it from the record.

        Args:
            record: the record.
            claim: UID of the claim.

        Raises:
            DraError: the card rejects a call, or the disk is full.
        """
        store, device = self._node.record_store, record.device
        async with store.lock(device):
            stored = await asyncio.to_thread(store.get, device)
            if stored is None or claim not in stored.claims:
                return
            try:
                await self._node.cards.call_gpu(
                    stored.gpu, lambda hardware: restore_settings(hardware, stored, claim)
                )
            except (GpuLostError, InvalidArgumentError, NotSupportedError) as error:
                # The GPU is gone or does not support the setting. This must not prevent a pod from ending.
                _log.warning("%s: its settings are not restored: %s", stored.gpu, error)
            if others := stored.others(claim):
                await asyncio.to_thread(store.put, replace(stored, holders=others))
            else:
                await asyncio.to_thread(store.delete, device)

    async def _hold(
        self, device: dra.AllocatedDevice, gpu: str, claim: str, wanted: GpuSettingsOfClaim
    ) -> None:
        store, cards = self._node.record_store, self._node.cards
        async with store.lock(device.name):
            stored = await asyncio.to_thread(store.get, device.name)
            holder = Holder(claim=claim, shared=bool(device.share_id), time_slice=wanted.time_slice)
            if stored is not None:
                stored.check_holder(holder)
                holder = merge_holder(stored, holder)
            record = stored or DeviceRecord(device=device.name, holders=(), gpu=gpu)
            earlier_mode = record.compute_mode
            if wanted.compute_mode is not None and earlier_mode is None:
                earlier_mode = await cards.call_gpu(gpu, lambda hardware: hardware.compute_mode(gpu))
            updated = replace(
                record,
                holders=(*record.others(claim), holder),
                state=RecordState.READY,
                boot=store.boot,
                compute_mode=earlier_mode,
            )
            if updated != stored:
                await asyncio.to_thread(store.put, updated)
            await cards.call_gpu(gpu, lambda hardware: apply_settings(hardware, gpu, wanted))
