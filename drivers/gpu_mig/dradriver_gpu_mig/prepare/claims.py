"""Prepares and unprepares claims: each device by its kind, then the MPS control daemon of the claim."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import dradriver as dra
from dradriver_gpu_mig.configs import VfioDeviceConfig
from dradriver_gpu_mig.containers import Containers, drop_repeated_hooks
from dradriver_gpu_mig.instances import DeviceRecord
from dradriver_gpu_mig.mps import make_mps_edits
from dradriver_gpu_mig.node import GpuNode
from dradriver_gpu_mig.offer import GpuDeviceKind, GpuOffer
from dradriver_gpu_mig.prepare.admin_access import prepare_admin_access
from dradriver_gpu_mig.prepare.dynamic_mig import DynamicMigDevices
from dradriver_gpu_mig.prepare.existing import ExistingDevices
from dradriver_gpu_mig.prepare.mps_daemons import MpsClient, plan_daemon
from dradriver_gpu_mig.prepare.passthrough_gpus import PassthroughGpus
from dradriver_gpu_mig.prepare.results import PreparedResults, Warn
from dradriver_gpu_mig.prepare.sharing import find_mps_config

__all__ = ["ClaimPreparer"]


class _DevicePreparer(Protocol):
    """Prepares and unprepares devices of one kind."""

    async def prepare(
        self, claim: dra.Claim, device: dra.AllocatedDevice, offer: GpuOffer
    ) -> dra.PreparedDevice: ...

    async def unprepare(self, record: DeviceRecord, claim: str) -> None: ...


class ClaimPreparer:
    """Prepares claims on a node.

    Args:
        node: the cards and the records.
        containers: source of the container edits.
        warn: writes an Event of a claim about something that the node does not offer.
    """

    def __init__(self, node: GpuNode, containers: Containers, warn: Warn) -> None:
        self._node = node
        self._results = results = PreparedResults(node, containers, warn)
        existing = ExistingDevices(node, results)
        self._preparers: Mapping[GpuDeviceKind, _DevicePreparer] = {
            GpuDeviceKind.GPU: existing,
            GpuDeviceKind.STATIC_MIG: existing,
            GpuDeviceKind.DYNAMIC_MIG: DynamicMigDevices(node, results),
            GpuDeviceKind.VFIO: PassthroughGpus(node),
        }

    async def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        """Prepare every device of the claim, then start its MPS control daemon if it requests MPS.

        If the process dies, the next prepare or unprepare continues from the records.

        Args:
            claim: the allocated claim.

        Returns:
            The container edits and metadata of each device.

        Raises:
            DraError: a device does not exist or is in use, the card rejects a call, or the daemon does not
                start. Devices that were prepared before the error stay prepared for the next prepare or
                unprepare.
        """
        has_daemon = claim.uid in await asyncio.to_thread(self._node.mps.claims)
        prepared: dict[dra.AllocatedDevice, dra.PreparedDevice] = {}
        clients: dict[dra.AllocatedDevice, MpsClient] = {}
        for device in claim.devices:
            offer = await self._node.find(device.name)
            client = self._find_mps_client(device, offer, has_daemon=has_daemon)
            if client is not None and not clients:
                await self._node.mps.check(claim.uid)  # before the GPU gets another compute mode
            prepared[device] = answer = await self._prepare(claim, device, offer)
            if client is not None:
                clients[device] = replace(client, uuid=str((answer.metadata or {})["uuid"]))
        if clients:
            await self._node.mps.start(plan_daemon(claim, list(clients.values())))
            edits = make_mps_edits(self._node.mps.folders, claim.uid)
            for device in clients:
                prepared[device] = replace(prepared[device], edits=prepared[device].edits | edits)
        return drop_repeated_hooks(prepared)

    async def unprepare(self, claim: dra.Claim) -> None:
        """Revert everything that is recorded for the claim: first its daemon, which uses the devices.

        All devices are reverted concurrently, so the waits for instances in use overlap.

        Args:
            claim: the claim, which no pod on this node uses any more.

        Raises:
            DraError: the daemon does not end, in which case no device is reverted; or the disk is full, or the
                card rejects a call, for example because a process uses an instance (InUseError). All other
                devices are reverted in this case.
        """
        if claim.uid in await asyncio.to_thread(self._node.mps.claims):
            await self._node.mps.stop(claim.uid)
        records = await asyncio.to_thread(self._node.record_store.all)
        reverts = (
            self._preparers[_find_kind(record)].unprepare(record, claim.uid)
            for record in records
            if claim.uid in record.claims
        )
        for answer in await asyncio.gather(*reverts, return_exceptions=True):
            if answer is not None:
                raise answer

    def _find_mps_client(
        self, device: dra.AllocatedDevice, offer: GpuOffer | None, *, has_daemon: bool
    ) -> MpsClient | None:
        """Return what the claim requests of MPS for a device; None if it does not request MPS.

        Raises:
            DraError: MPS is off on this node, and the claim has no daemon of the time when it was on.
        """
        if offer is None or offer.kind is GpuDeviceKind.VFIO:
            return None
        config = find_mps_config(device, is_whole_gpu=offer.kind is GpuDeviceKind.GPU)
        if config is None:
            return None
        if self._node.settings.mps is None and not has_daemon:
            raise dra.DraError(
                f"device {device.name}: the claim requests MPS, which is off on this node (mps in the settings)"
            )
        memory = device.consumed_capacity.get("memory") if device.share_id else None
        return MpsClient(device.name, config, int(memory) if memory is not None else 0)

    async def _prepare(
        self, claim: dra.Claim, device: dra.AllocatedDevice, offer: GpuOffer | None
    ) -> dra.PreparedDevice:
        if device.admin_access:
            return await prepare_admin_access(self._results, claim, offer)
        if offer is None:
            raise dra.DraError(
                f"device {device.name} no longer exists, or the node does not offer it in its present mode"
            )
        if offer.kind is not GpuDeviceKind.VFIO and device.config(VfioDeviceConfig) is not None:
            raise dra.DraError(f"device {device.name}: VfioDeviceConfig needs a device of the type vfio")
        return await self._preparers[offer.kind].prepare(claim, device, offer)


def _find_kind(record: DeviceRecord) -> GpuDeviceKind:
    """Return the kind of a recorded device. A static MIG device has the same record as a whole GPU."""
    if record.passed is not None:
        return GpuDeviceKind.VFIO
    return GpuDeviceKind.GPU if record.instance is None else GpuDeviceKind.DYNAMIC_MIG
