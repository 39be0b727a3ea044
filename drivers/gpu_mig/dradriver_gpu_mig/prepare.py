"""Prepares and unprepares claims, device by device.

Each change to a card is recorded before it is made, and it is reverted from the record. Both operations can
therefore be repeated after a crash at any point. Instances follow the table in `instances.steps`. Settings of a
GPU are idempotent: setting or restoring them twice has the same result as once.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

import dradriver as dra
from dradriver_gpu_mig.card import (
    CardError,
    GpuLostError,
    Hardware,
    InvalidArgumentError,
    MigDevice,
    NotSupportedError,
)
from dradriver_gpu_mig.configs import GpuConfig, MigDeviceConfig
from dradriver_gpu_mig.containers import Containers
from dradriver_gpu_mig.instances import Place, Record, State
from dradriver_gpu_mig.node import Node
from dradriver_gpu_mig.offer import Kind, Offer
from dradriver_gpu_mig.sharing import apply, checked, mps_edits, requested_sharing, restore

__all__ = ["Preparing"]

_log: Final = logging.getLogger(__name__)

_Config = GpuConfig | MigDeviceConfig | None


class Preparing:
    """Prepares claims on a node.

    Args:
        node: the cards and the records.
        containers: source of the container edits.
    """

    def __init__(self, node: Node, containers: Containers) -> None:
        self._node = node
        self._containers = containers

    async def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        """Prepare every device of the claim.

        If the process dies, the next prepare or unprepare continues from the records.

        Raises:
            DraError: a device does not exist, is in use, or the card rejects a call. Devices that were prepared
                before it stay prepared for the next prepare or unprepare.
        """
        return {device: await self._prepare(claim, device) for device in claim.devices}

    async def unprepare(self, claim: dra.Claim) -> None:
        """Revert everything that is recorded for the claim.

        All devices are reverted at once, so waits for instances in use overlap.

        Raises:
            DraError: the disk is full, or the card rejects a call, for example because a process uses an
                instance (InUseError). All other devices are reverted nevertheless.
        """
        records = await asyncio.to_thread(self._node.record_store.all)
        ours = (self._take_back(record) for record in records if record.claim == claim.uid)
        for answer in await asyncio.gather(*ours, return_exceptions=True):
            if answer is not None:
                raise answer

    async def _prepare(self, claim: dra.Claim, device: dra.AllocatedDevice) -> dra.PreparedDevice:
        offer = await self._node.find(device.name)
        if device.admin_access:
            return await self._only_shown(offer)
        if offer is None:
            raise dra.DraError(f"{device.name} is not there any more, or not in the node's present mode")
        whole = offer.kind is Kind.WHOLE
        config = checked(device, whole=whole)
        settings = self._node.settings
        shared = await asyncio.to_thread(mps_edits, config, settings.mps, Path(settings.host.root))
        record = Record(device=device.name, claim=claim.uid, gpu=offer.card.gpu.uuid, place=_place(offer))
        await self._switch(record, offer, divided=not whole)
        if offer.kind is Kind.PLACE:
            mig: MigDevice | None = await self._node.reconciler.make(record)
        else:
            mig = offer.mig
            await self._set(record, config)
        return await self._answer(offer, mig, shared)

    async def _only_shown(self, offer: Offer | None) -> dra.PreparedDevice:
        """Return the existing device for admin access. Nothing is created for it."""
        if offer is None:
            return dra.PreparedDevice()
        place = _place(offer)
        there = offer.card.at(place.profile, place.placement) if place else None
        mig = offer.mig or (there.whole if there else None)
        if mig is None and offer.kind is not Kind.WHOLE:
            return dra.PreparedDevice()
        return await self._answer(offer, mig, dra.ContainerEdits())

    async def _answer(
        self, offer: Offer, mig: MigDevice | None, shared: dra.ContainerEdits
    ) -> dra.PreparedDevice:
        uuid = offer.card.gpu.uuid
        # The GPU is read again because its minor number may change when MIG is switched.
        system, gpu = await self._node.cards.call(lambda hardware: (hardware.system(), hardware.gpu(uuid)))

        def edits() -> dra.ContainerEdits:
            own = self._containers.mig(gpu, mig) if mig else self._containers.gpu(gpu)
            return self._containers.common(system) | own | shared

        told = {"uuid": mig.uuid, "parentUUID": uuid} if mig else {"uuid": uuid}
        if offer.profile is not None:
            told["profile"] = offer.profile.name
        return dra.PreparedDevice(await asyncio.to_thread(edits), metadata=told, data=told)

    # --- MIG mode -------------------------------------------------------------------------------

    async def _switch(self, record: Record, offer: Offer, *, divided: bool) -> None:
        if offer.card.divided is divided:
            return
        records = await asyncio.to_thread(self._node.record_store.all)
        others = sorted(
            {each.device for each in records if each.gpu == record.gpu and each.claim != record.claim}
        )
        await self._node.cards.call(lambda hardware: _switch(hardware, record.gpu, others, divided=divided))

    # --- settings of a GPU ----------------------------------------------------------------------

    async def _set(self, record: Record, config: _Config) -> None:
        mode, time_slice = requested_sharing(config)
        record_store, gpu = self._node.record_store, record.gpu
        kept = await asyncio.to_thread(record_store.get, record.device)
        if kept is not None and kept.claim != record.claim:
            raise dra.DraError(f"{record.device} is in use by the claim with UID {kept.claim}")
        if kept is None:
            before = await self._node.cards.call(lambda hardware: hardware.compute_mode(gpu)) if mode else None
            ready = msgspec.structs.replace(
                record,
                state=State.READY,
                boot=record_store.boot,
                compute_mode=before,
                time_slice=time_slice is not None,
            )
            await asyncio.to_thread(record_store.put, ready)
        await self._node.cards.call(lambda hardware: apply(hardware, gpu, mode, time_slice))

    async def _take_back(self, record: Record) -> None:
        if record.place is not None:
            await self._node.reconciler.remove(record, self._node.settings.destroy_seconds)
            return
        try:
            await self._node.cards.call(lambda hardware: restore(hardware, record))
        except (GpuLostError, InvalidArgumentError, NotSupportedError) as error:
            # The GPU is gone or does not support the setting. This must not keep a pod from ending.
            _log.warning("the settings of %s are not restored: %s", record.gpu, error)
        await asyncio.to_thread(self._node.record_store.drop, record.device)


def _place(offer: Offer) -> Place | None:
    if offer.kind is not Kind.PLACE or offer.profile is None or offer.placement is None:
        return None
    return Place(offer.profile.id, offer.placement)


# The function below runs on the hardware's thread.


def _switch(hardware: Hardware, uuid: str, others: Sequence[str], *, divided: bool) -> None:
    """Switch MIG on an unused GPU.

    The checks and the switch are one call, so that no other call runs between them.

    Args:
        hardware: the cards.
        uuid: the GPU.
        others: names of its devices that other claims have.
        divided: whether MIG has to be on.

    Raises:
        DraError: the GPU is in use, or it switches MIG only after a reset.
    """
    word = "on" if divided else "off"
    mig = hardware.gpu(uuid).mig
    if mig is not None and mig.current is divided:
        return  # another claim has switched it since the cards were read
    if others:
        used = ", ".join(others)
        raise dra.DraError(f"MIG can't be switched {word} on {uuid}: other claims have {used}")
    if hardware.gpu_instances(uuid):
        raise dra.DraError(f"MIG can't be switched {word} on {uuid}: it has instances that others made")
    if users := hardware.processes(uuid):
        pids = ", ".join(str(user.pid) for user in users)
        raise dra.DraError(f"MIG can't be switched {word} on {uuid}: processes {pids} use it")
    mode = hardware.set_mig_mode(uuid, enabled=divided)
    if mode.current is not divided:
        hardware.set_mig_mode(uuid, enabled=not divided)  # otherwise the next reset would switch it
        raise CardError(f"MIG can't be switched {word} on {uuid} without a reset of the GPU")
