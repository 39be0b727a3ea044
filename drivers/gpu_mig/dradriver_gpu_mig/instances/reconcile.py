"""Executes the steps of the table in `steps` until no step is left."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import msgspec

import dradriver as dra
from dradriver_gpu_mig.card import (
    GpuCards,
    GpuError,
    GpuHardware,
    GpuInstance,
    GpuLostError,
    InstanceNotFoundError,
    InsufficientResourcesError,
    InUseError,
    InvalidArgumentError,
    MigDevice,
)
from dradriver_gpu_mig.files import BusyError
from dradriver_gpu_mig.instances.record import DeviceRecord, ProfilePlacement, RecordState
from dradriver_gpu_mig.instances.record_store import RecordStore
from dradriver_gpu_mig.instances.steps import (
    RECORD_STEPS,
    DesiredInstance,
    InstanceStep,
    ObservedInstance,
    next_step,
)

__all__ = ["InstanceReconciler"]

_T = TypeVar("_T")

_log: Final = logging.getLogger(__name__)

_RETRY_PAUSES: Final = (0.1, 2.0)
"""Seconds between attempts to destroy an instance in use: the first pause, and the longest."""


class InstanceReconciler:
    """Creates and destroys instances.

    Args:
        cards: the hardware.
        record_store: the records.
    """

    def __init__(self, cards: GpuCards, record_store: RecordStore) -> None:
        self._cards = cards
        self._records = record_store

    async def create(self, desired: DeviceRecord) -> MigDevice:
        """Create the missing parts of a record's MIG device, and record that the claim has it.

        If the card returns an error, the instance is destroyed before the error is raised, unless other claims
        have it, or the claim had it before. If the process dies, the next process continues from the record.

        Args:
            desired: the record of a device that has an instance, with one claim.

        Returns:
            The complete MIG device.

        Raises:
            DraError: another claim has the device, another instance uses a resource that the new instance
                needs, the card rejects the call, or the disk is full.
        """
        (holder,) = desired.holders
        async with self._records.lock(desired.device):
            stored = await asyncio.to_thread(self._records.get, desired.device)
            had_it = False
            if stored is not None and stored.state is not RecordState.DESTROYING:
                stored.check_holder(holder)
                had_it = stored.state is RecordState.READY and holder.claim in stored.claims
                if holder not in stored.holders:
                    await self._put(stored, holders=(*stored.others(holder.claim), holder))
            try:
                mig_device = await self._converge(DesiredInstance.PRESENT, desired)
            except GpuError:
                if not had_it:
                    await self._roll_back(desired, holder.claim)
                raise
        if mig_device is None:
            raise dra.DraError(f"device {desired.device}: another program divided its GPU instance")
        return mig_device

    async def destroy(self, record: DeviceRecord, claim: str, retry_seconds: float) -> None:
        """Record that a claim has no part of an instance any more; destroy the instance of the last claim.

        If the GPU is lost, the instance cannot be destroyed. The record then stays, so that the instance is
        destroyed when the GPU is back.

        Args:
            record: the record, as it was last read.
            claim: UID of the claim.
            retry_seconds: seconds for which the call keeps trying to destroy an instance in use.

        Raises:
            InUseError: a process still uses the instance. The record stays, and a later call must destroy the
                instance.
            GpuError: the card rejects the call.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + retry_seconds
        pause, longest = _RETRY_PAUSES
        while True:
            try:
                async with self._records.lock(record.device):
                    await self._destroy(record, claim)
            except InUseError:
                if clock() + pause > deadline:
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)
            else:
                return

    async def recover(self) -> None:
        """Destroy instances that a process left incomplete, unless another process is working on them."""
        for record in await asyncio.to_thread(self._records.all):
            if record.instance is None or record.state is RecordState.READY:
                continue
            try:
                async with self._records.lock(record.device, wait=False):
                    current = await asyncio.to_thread(self._records.get, record.device)
                    if current is None or current.state is RecordState.READY:
                        continue  # another process has completed the instance
                    _log.warning(
                        "%s is incomplete since an earlier process prepared claim %s: it is rolled back",
                        current.device,
                        ", ".join(current.claims),
                    )
                    await self._converge(DesiredInstance.ABSENT, current)
            except BusyError:
                continue
            except dra.DraError as error:
                _log.warning("%s cannot be rolled back now: %s", record.device, error)

    async def _destroy(self, record: DeviceRecord, claim: str) -> None:
        stored = await asyncio.to_thread(self._records.get, record.device)
        if stored is not None and claim not in stored.claims:
            return  # while this call waited, another process removed the record and the device got a new claim
        if await self._remove_holder(stored, claim):
            return
        try:
            await self._converge(DesiredInstance.ABSENT, record)
        except (GpuLostError, InvalidArgumentError) as error:
            _log.warning("%s will be destroyed when its GPU is back: %s", record.device, error)
            await self._put(stored or record, state=RecordState.DESTROYING)

    async def _roll_back(self, record: DeviceRecord, claim: str) -> None:
        try:
            stored = await asyncio.to_thread(self._records.get, record.device)
            if not await self._remove_holder(stored, claim):
                await self._converge(DesiredInstance.ABSENT, record)
        except GpuError as error:
            _log.warning(
                "%s cannot be rolled back now, its next prepare or unprepare will try again: %s",
                record.device,
                error,
            )

    async def _remove_holder(self, stored: DeviceRecord | None, claim: str) -> bool:
        """Remove a claim from a record, and return True; return False if no other claim has the device."""
        if stored is None or stored.state is RecordState.DESTROYING or not (others := stored.others(claim)):
            return False
        await self._put(stored, holders=others)
        return True

    async def _call(self, record: DeviceRecord, action: Callable[[GpuHardware], _T]) -> _T:
        return await self._cards.call_gpu(record.gpu, action)

    async def _converge(self, desired: DesiredInstance, record: DeviceRecord) -> MigDevice | None:
        """Execute steps until none is left, and return the MIG device if the instance is complete."""
        seen = await self._call(record, lambda hardware: _observe(hardware, record))
        while True:
            stored = await asyncio.to_thread(self._records.get, record.device)
            step = next_step(desired, stored.state if stored else None, _compare(stored, seen))
            if step is InstanceStep.DONE:
                return seen.mig_device
            _log.debug("%s for claim %s: %s", record.device, ", ".join(record.claims), step.value)
            instance = await self._execute(step, stored or record, seen)
            if step not in RECORD_STEPS:
                seen = await self._cards.call_gpu(
                    record.gpu, partial(_observe, record=record, instance=instance)
                )

    async def _execute(
        self, step: InstanceStep, record: DeviceRecord, seen: "_Observation"
    ) -> GpuInstance | None:
        """Execute a step, and return the GPU instance that it leaves at the placement, if it is known."""
        instance = seen.instance
        match step:
            case InstanceStep.RECORD_CREATING:
                await self._put(record, state=RecordState.CREATING, mig_uuid="")
            case InstanceStep.RECORD_READY:
                mig_uuid = seen.mig_device.uuid if seen.mig_device else ""
                await self._put(record, state=RecordState.READY, mig_uuid=mig_uuid)
            case InstanceStep.RECORD_DESTROYING:
                await self._put(record, state=RecordState.DESTROYING)
            case InstanceStep.DELETE_RECORD:
                await asyncio.to_thread(self._records.delete, record.device)
            case InstanceStep.FORGET:
                _log.warning(
                    "%s: another program replaced its MIG device %s of claim %s by %s, which is left alone: "
                    "the record of the claim is deleted",
                    record.device,
                    record.mig_uuid,
                    ", ".join(record.claims),
                    seen.mig_device.uuid if seen.mig_device else "another instance",
                )
                await asyncio.to_thread(self._records.delete, record.device)
            case InstanceStep.REJECT:
                raise dra.DraError(
                    f"device {record.device}: another program created a GPU instance at its placement; "
                    "destroy it (nvidia-smi mig -dci, -dgi) or claim another device"
                )
            case InstanceStep.CREATE_GPU_INSTANCE:
                return await self._create_gpu_instance(record)
            case InstanceStep.CREATE_COMPUTE_INSTANCE if instance is not None:
                await self._cards.call_gpu(
                    record.gpu, lambda hardware: _create_compute_instance(hardware, record, instance)
                )
                return instance
            case _:
                await self._cards.call_gpu(
                    record.gpu, lambda hardware: _destroy_on_card(hardware, step, record)
                )
        return None

    async def _create_gpu_instance(self, record: DeviceRecord) -> GpuInstance:
        instance = _require_placement(record)
        try:
            return await self._cards.call_gpu(
                record.gpu,
                lambda hardware: hardware.create_gpu_instance(record.gpu, instance.profile, instance.placement),
            )
        except InsufficientResourcesError as error:
            # Nothing was created. If an instance exists at this placement, it is not the driver's: delete only
            # the record.
            await asyncio.to_thread(self._records.delete, record.device)
            raise dra.DraError(
                f"device {record.device}: another instance uses what it needs: {error}"
            ) from error

    async def _put(self, record: DeviceRecord, **changes: object) -> None:
        updated = msgspec.structs.replace(record, boot=self._records.boot, **changes)
        await asyncio.to_thread(self._records.put, updated)


# The functions below run on the hardware's thread.


def _require_placement(record: DeviceRecord) -> ProfilePlacement:
    if record.instance is None:
        raise dra.DraError(f"device {record.device} has no GPU instance that this driver creates")
    return record.instance


@dataclass(frozen=True, slots=True)
class _Observation:
    """The GPU instance at a record's placement.

    Attributes:
        state: its state.
        instance: the GPU instance; None: there is none.
        mig_device: the MIG device that uses all of it; None: the instance is incomplete or divided.
    """

    state: ObservedInstance
    instance: GpuInstance | None = None
    mig_device: MigDevice | None = None


def _compare(record: DeviceRecord | None, seen: _Observation) -> ObservedInstance:
    """Return the observed state, or FOREIGN if the MIG device is not the recorded one."""
    return seen.state if _is_recorded(record, seen.mig_device) else ObservedInstance.FOREIGN


def _is_recorded(record: DeviceRecord | None, device: MigDevice | None) -> bool:
    """Return whether a MIG device can be the recorded one. Without a recorded UUID, any device can be."""
    return record is None or device is None or record.mig_uuid in {"", device.uuid}


def _observe(hardware: GpuHardware, record: DeviceRecord, instance: GpuInstance | None = None) -> _Observation:
    """Return the state of the GPU instance at a record's placement.

    Args:
        hardware: the cards.
        record: the record.
        instance: the GPU instance that was found or created there a moment ago. It is not searched for again,
            because NVML needs one call for each instance of the profile. None: search for it.
    """
    if instance is not None:
        try:
            return _observe_instance(hardware, record.gpu, instance)
        except InstanceNotFoundError:
            pass  # it was destroyed
    found = _find_instance(hardware, record)
    if found is None:
        return _Observation(ObservedInstance.NOTHING)
    return _observe_instance(hardware, record.gpu, found)


def _find_instance(hardware: GpuHardware, record: DeviceRecord) -> GpuInstance | None:
    wanted = _require_placement(record)
    return hardware.find_gpu_instance(record.gpu, wanted.profile, wanted.placement)


def _observe_instance(hardware: GpuHardware, gpu: str, instance: GpuInstance) -> _Observation:
    match hardware.mig_devices(gpu, instance):
        case ():
            return _Observation(ObservedInstance.INCOMPLETE, instance)
        case (device,):
            return _Observation(ObservedInstance.COMPLETE, instance, device)
        case _:
            return _Observation(ObservedInstance.COMPLETE, instance)


def _create_compute_instance(hardware: GpuHardware, record: DeviceRecord, instance: GpuInstance) -> None:
    with suppress(InstanceNotFoundError):  # the instance no longer exists; the next step observes this
        hardware.create_compute_instance(record.gpu, instance)


def _destroy_on_card(hardware: GpuHardware, step: InstanceStep, record: DeviceRecord) -> None:
    # The instance is searched for again. Otherwise an instance could be destroyed that another program created
    # with the same ID after the last observation.
    instance = _find_instance(hardware, record)
    if instance is None:
        return
    with suppress(InstanceNotFoundError):
        if step is InstanceStep.DESTROY_COMPUTE_INSTANCES:
            devices = hardware.mig_devices(record.gpu, instance)
            if len(devices) == 1 and not _is_recorded(record, devices[0]):
                return  # another program replaced it after the last observation; the next step observes this
            for device in devices:
                hardware.destroy_compute_instance(record.gpu, instance.id, device.compute_instance)
        else:
            hardware.destroy_gpu_instance(record.gpu, instance.id)
