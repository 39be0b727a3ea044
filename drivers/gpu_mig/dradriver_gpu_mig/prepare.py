"""Prepares and unprepares claims, device by device.

Each change to a card is recorded before it is made. Unprepare reads the record to revert the change. Prepare
and unprepare can therefore be repeated after a crash at any point. Instances are created and destroyed
according to the table in `instances.steps`. Settings of a GPU are idempotent: setting or restoring them twice
has the same result as doing so once.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

import dradriver as dra
from dradriver_gpu_mig.card import (
    Gpu,
    GpuError,
    GpuHardware,
    GpuLostError,
    InvalidArgumentError,
    MigDevice,
    NotSupportedError,
)
from dradriver_gpu_mig.configs import GpuConfig, MigDeviceConfig, VfioDeviceConfig
from dradriver_gpu_mig.containers import Containers, OfferedEdits, drop_repeated_hooks
from dradriver_gpu_mig.instances import DeviceRecord, ProfilePlacement, RecordState
from dradriver_gpu_mig.node import GpuNode
from dradriver_gpu_mig.offer import GpuDeviceKind, GpuOffer
from dradriver_gpu_mig.passthrough import make_passthrough_edits
from dradriver_gpu_mig.sharing import (
    apply_sharing,
    make_mps_edits,
    read_sharing,
    restore_sharing,
    select_config,
)

__all__ = ["ClaimPreparer"]

_log: Final = logging.getLogger(__name__)

_Config = GpuConfig | MigDeviceConfig | None


class ClaimPreparer:
    """Prepares claims on a node.

    Args:
        node: the cards and the records.
        containers: source of the container edits.
        warn: writes an Event of a claim about something that the node does not offer.
    """

    def __init__(self, node: GpuNode, containers: Containers, warn: Callable[[dra.Claim, str], None]) -> None:
        self._node = node
        self._containers = containers
        self._warn = warn

    async def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        """Prepare every device of the claim.

        If the process dies, the next prepare or unprepare continues from the records.

        Raises:
            DraError: a device does not exist or is in use, or the card rejects a call. Devices that were
                prepared before the error stay prepared for the next prepare or unprepare.
        """
        return drop_repeated_hooks({device: await self._prepare(claim, device) for device in claim.devices})

    async def unprepare(self, claim: dra.Claim) -> None:
        """Revert everything that is recorded for the claim.

        All devices are reverted concurrently, so the waits for instances in use overlap.

        Raises:
            DraError: the disk is full, or the card rejects a call, for example because a process uses an
                instance (InUseError). All other devices are still reverted.
        """
        records = await asyncio.to_thread(self._node.record_store.all)
        reverts = (self._unprepare(record) for record in records if record.claim == claim.uid)
        for answer in await asyncio.gather(*reverts, return_exceptions=True):
            if answer is not None:
                raise answer

    async def _prepare(self, claim: dra.Claim, device: dra.AllocatedDevice) -> dra.PreparedDevice:
        offer = await self._node.find(device.name)
        if device.admin_access:
            return await self._prepare_admin_access(claim, offer)
        if offer is None:
            raise dra.DraError(
                f"device {device.name} no longer exists, or the node does not offer it in its present mode"
            )
        if offer.kind is GpuDeviceKind.VFIO:
            return await self._prepare_passthrough(claim, device, offer)
        if device.config(VfioDeviceConfig) is not None:
            raise dra.DraError(f"device {device.name}: VfioDeviceConfig needs a device of the type vfio")
        is_whole_gpu = offer.kind is GpuDeviceKind.GPU
        config = select_config(device, is_whole_gpu=is_whole_gpu)
        settings = self._node.settings
        mps = await asyncio.to_thread(make_mps_edits, config, settings.mps, Path(settings.host.root))
        record = DeviceRecord(
            device=device.name, claim=claim.uid, gpu=offer.card.gpu.uuid, instance=_to_profile_placement(offer)
        )
        offer = await self._switch_mig(record, offer, enabled=not is_whole_gpu)
        if offer.kind is GpuDeviceKind.DYNAMIC_MIG:
            mig: MigDevice | None = await self._node.reconciler.create(record)
        else:
            mig = offer.mig
            await self._apply_settings(record, config)
        return await self._make_result(claim, offer, mig, mps)

    async def _prepare_passthrough(
        self, claim: dra.Claim, device: dra.AllocatedDevice, offer: GpuOffer
    ) -> dra.PreparedDevice:
        """Bind a GPU to vfio-pci, and return the device nodes for a virtual machine monitor."""
        if device.config(GpuConfig) is not None or device.config(MigDeviceConfig) is not None:
            raise dra.DraError(f"device {device.name}: a GPU for a virtual machine needs VfioDeviceConfig")
        config = device.config(VfioDeviceConfig) or VfioDeviceConfig()
        node, dev = self._node, Path(self._node.settings.host.dev)
        record = DeviceRecord(device=device.name, claim=claim.uid, gpu=offer.card.gpu.uuid)
        offer = await self._switch_mig(record, offer, enabled=False)
        gpu = offer.card.gpu
        await node.binder.bind(device.name, claim.uid, gpu, offer.card.profiles)
        edits = await asyncio.to_thread(make_passthrough_edits, node.pci, dev, gpu.pci_address, config.iommu)
        metadata = {"uuid": gpu.uuid, "pciBusID": gpu.pci_address}
        return dra.PreparedDevice(edits, metadata=metadata, data=metadata)

    async def _prepare_admin_access(self, claim: dra.Claim, offer: GpuOffer | None) -> dra.PreparedDevice:
        """Return the existing device for admin access, with the right to monitor all MIG devices of the node.

        No instance is created.
        """
        if offer is None:
            return dra.PreparedDevice()
        key = _to_profile_placement(offer)
        instance = offer.card.find_instance_at(key.profile, key.placement) if key else None
        mig = offer.mig or (instance.full_mig_device if instance else None)
        if mig is None and offer.kind is not GpuDeviceKind.GPU:
            return dra.PreparedDevice()  # also of a GPU for a virtual machine, which only one process can open
        monitor = await asyncio.to_thread(self._containers.monitor)
        return await self._make_result(claim, offer, mig, monitor.edits)

    async def _make_result(
        self, claim: dra.Claim, offer: GpuOffer, mig: MigDevice | None, mps: dra.ContainerEdits
    ) -> dra.PreparedDevice:
        gpu, system = offer.card.gpu, await self._node.read_system()

        profile = "" if offer.profile is None else offer.profile.name

        def offered() -> OfferedEdits:
            own = self._containers.mig(gpu, mig, profile) if mig else self._containers.gpu(gpu)
            return self._containers.common(system) | own

        metadata = {"uuid": mig.uuid, "parentUUID": gpu.uuid} if mig else {"uuid": gpu.uuid}
        if profile:
            metadata["profile"] = profile
        found = await asyncio.to_thread(offered)
        for missing in found.missing:
            self._warn(claim, missing)
        return dra.PreparedDevice(found.edits | mps, metadata=metadata, data=metadata)

    # --- MIG mode -------------------------------------------------------------------------------

    async def _switch_mig(self, record: DeviceRecord, offer: GpuOffer, *, enabled: bool) -> GpuOffer:
        """Switch MIG if necessary, and return the offer with the GPU as it is afterwards."""
        if offer.card.mig_enabled is enabled:
            return offer
        records = await asyncio.to_thread(self._node.record_store.all)
        devices_in_use = sorted(
            {each.device for each in records if each.gpu == record.gpu and each.claim != record.claim}
        )
        gpu = await self._node.cards.call_gpu(
            record.gpu, lambda hardware: _switch_mig(hardware, record.gpu, devices_in_use, enabled=enabled)
        )
        return replace(offer, card=replace(offer.card, gpu=gpu))

    # --- settings of a GPU ----------------------------------------------------------------------

    async def _apply_settings(self, record: DeviceRecord, config: _Config) -> None:
        mode, time_slice = read_sharing(config)
        record_store, gpu = self._node.record_store, record.gpu
        stored = await asyncio.to_thread(record_store.get, record.device)
        if stored is not None and stored.claim != record.claim:
            raise dra.DraError(f"device {record.device} is in use by the claim with UID {stored.claim}")
        if stored is None:
            compute_mode = (
                await self._node.cards.call_gpu(gpu, lambda hardware: hardware.compute_mode(gpu))
                if mode
                else None
            )
            ready = msgspec.structs.replace(
                record,
                state=RecordState.READY,
                boot=record_store.boot,
                compute_mode=compute_mode,
                time_slice=time_slice is not None,
            )
            await asyncio.to_thread(record_store.put, ready)
        await self._node.cards.call_gpu(gpu, lambda hardware: apply_sharing(hardware, gpu, mode, time_slice))

    async def _unprepare(self, record: DeviceRecord) -> None:
        if record.passed is not None:
            await self._node.binder.release(record)
            return
        if record.instance is not None:
            await self._node.reconciler.destroy(record, self._node.settings.destroy_seconds)
            return
        try:
            await self._node.cards.call_gpu(record.gpu, lambda hardware: restore_sharing(hardware, record))
        except (GpuLostError, InvalidArgumentError, NotSupportedError) as error:
            # The GPU is gone or does not support the setting. This must not prevent a pod from ending.
            _log.warning("%s: its settings are not restored: %s", record.gpu, error)
        await asyncio.to_thread(self._node.record_store.delete, record.device)


def _to_profile_placement(offer: GpuOffer) -> ProfilePlacement | None:
    if offer.kind is not GpuDeviceKind.DYNAMIC_MIG or offer.profile is None or offer.placement is None:
        return None
    return ProfilePlacement(offer.profile.id, offer.placement)


# The function below runs on the hardware's thread.


def _switch_mig(hardware: GpuHardware, uuid: str, devices_in_use: Sequence[str], *, enabled: bool) -> Gpu:
    """Turn MIG on or off on an unused GPU.

    The checks and the switch run in one call on the hardware's thread, so no other call runs between them.

    Args:
        hardware: the cards.
        uuid: the GPU.
        devices_in_use: names of the GPU's devices that other claims have.
        enabled: whether MIG must be on.

    Returns:
        The GPU after the switch, which can change its minor number.

    Raises:
        DraError: the GPU is in use, or the GPU switches MIG only after a reset.
    """
    state = "on" if enabled else "off"
    gpu = hardware.gpu(uuid)
    if gpu.mig is not None and gpu.mig.current is enabled:
        return gpu  # another claim has switched MIG since the cards were read
    if devices_in_use:
        devices = ", ".join(devices_in_use)
        raise dra.DraError(f"{uuid}: MIG cannot be switched {state}: other claims have {devices}")
    if hardware.gpu_instances(uuid):
        raise dra.DraError(f"{uuid}: MIG cannot be switched {state}: it has instances of other programs")
    if processes := hardware.processes(uuid):
        pids = ", ".join(str(user.pid) for user in processes)
        raise dra.DraError(f"{uuid}: MIG cannot be switched {state}: processes {pids} use it")
    mode = hardware.set_mig_mode(uuid, enabled=enabled)
    if mode.current is not enabled:
        hardware.set_mig_mode(uuid, enabled=not enabled)  # otherwise the next reset would switch it
        raise GpuError(f"{uuid}: MIG cannot be switched {state} without a reset of the GPU")
    return hardware.gpu(uuid)
