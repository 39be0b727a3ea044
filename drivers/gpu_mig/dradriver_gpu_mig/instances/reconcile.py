"""Executes the steps of the table in `steps` until none is left."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec

import dradriver as dra
from dradriver_gpu_mig.card import (
    CardError,
    Cards,
    GpuInstance,
    GpuLostError,
    Hardware,
    InstanceNotFoundError,
    InsufficientResourcesError,
    InUseError,
    InvalidArgumentError,
    MigDevice,
)
from dradriver_gpu_mig.instances.record import Place, Record, State
from dradriver_gpu_mig.instances.record_store import RecordStore
from dradriver_gpu_mig.instances.steps import Found, Step, Wanted, next_step

__all__ = ["InstanceReconciler"]

_log: Final = logging.getLogger(__name__)

_PAUSES: Final = (0.1, 2.0)
"""Seconds between attempts to destroy an instance in use: the first pause, and the longest."""

_HOLD_SECONDS: Final = 10.0
"""Seconds for which a prepare waits for a recovery, or for the previous process of a rolling update."""


class _BusyError(dra.DraError):
    """Another process, or another call of this process, works on the device."""


class InstanceReconciler:
    """Creates and destroys instances.

    Args:
        cards: the hardware.
        record_store: the records.
    """

    def __init__(self, cards: Cards, record_store: RecordStore) -> None:
        self._cards = cards
        self._records = record_store

    async def make(self, wanted: Record) -> MigDevice:
        """Return the MIG device of a record with a place. Missing parts are created.

        After a card error, the instance is destroyed before the error is raised. If the process dies, the next
        process continues from the record.

        Raises:
            DraError: the place or another needed resource is taken, the card rejects the call, or the disk is
                full.
        """
        async with self._held(wanted.device):
            kept = await asyncio.to_thread(self._records.get, wanted.device)
            if kept is not None and kept.claim != wanted.claim and kept.state is not State.DESTROYING:
                raise dra.DraError(f"{wanted.device} is in use by the claim with UID {kept.claim}")
            try:
                await self._converge(Wanted.PRESENT, wanted)
            except CardError:
                await self._take_back(wanted)
                raise
        return await self._cards.call(lambda hardware: _device(hardware, wanted))

    async def remove(self, record: Record, patience: float) -> None:
        """Destroy the instance of a record, then remove the record.

        If the GPU is lost, the instance cannot be destroyed. The record then stays, so that it is destroyed
        when the GPU is back.

        Args:
            record: the record as it was read.
            patience: seconds for which an instance in use is tried again.

        Raises:
            InUseError: a process still uses the instance. The record stays, and a later call has to destroy it.
            CardError: the card rejects the call.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + patience
        pause, longest = _PAUSES
        while True:
            try:
                async with self._held(record.device):
                    await self._destroy(record)
            except InUseError:
                if clock() + pause > until:
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)
            else:
                return

    async def recover(self) -> None:
        """Destroy instances that a process left incomplete, except those that another process works on."""
        for record in await asyncio.to_thread(self._records.all):
            if record.place is None or record.state is State.READY:
                continue
            try:
                async with self._held(record.device, patience=0):
                    again = await asyncio.to_thread(self._records.get, record.device)
                    if again is None or again.state is State.READY:
                        continue  # another process has completed it
                    _log.warning(
                        "%s was left half done for claim %s: taking it back", again.device, again.claim
                    )
                    await self._converge(Wanted.ABSENT, again)
            except _BusyError:
                continue
            except dra.DraError as error:
                _log.warning("%s is not taken back now: %s", record.device, error)

    async def _destroy(self, record: Record) -> None:
        kept = await asyncio.to_thread(self._records.get, record.device)
        if kept is not None and kept.claim != record.claim:
            return  # while this call waited, another process removed it and the device got a new claim
        try:
            await self._converge(Wanted.ABSENT, record)
        except (GpuLostError, InvalidArgumentError) as error:
            _log.warning("%s is destroyed when its GPU is back: %s", record.device, error)
            await self._write(record, State.DESTROYING)

    @asynccontextmanager
    async def _held(self, device: str, patience: float = _HOLD_SECONDS) -> AsyncIterator[None]:
        clock = asyncio.get_running_loop().time
        until = clock() + patience
        while (lock := await asyncio.to_thread(self._records.hold, device)) is None:
            if clock() >= until:
                raise _BusyError(f"another process of this driver works on {device}")
            await asyncio.sleep(_PAUSES[0])
        try:
            yield
        finally:
            lock.close()

    async def _take_back(self, record: Record) -> None:
        try:
            await self._converge(Wanted.ABSENT, record)
        except CardError as error:
            _log.warning(
                "%s can't be taken back now, its next prepare or unprepare does: %s", record.device, error
            )

    async def _converge(self, wanted: Wanted, record: Record) -> None:
        while True:
            kept = await asyncio.to_thread(self._records.get, record.device)
            found = await self._cards.call(lambda hardware: _found(hardware, record))
            step = next_step(wanted, kept.state if kept else None, found)
            if step is Step.DONE:
                return
            _log.debug("%s for claim %s: %s", record.device, record.claim, step.value)
            await self._take(step, kept or record)

    async def _take(self, step: Step, record: Record) -> None:
        match step:
            case Step.RECORD:
                await self._write(record, State.CREATING)
            case Step.CONFIRM:
                await self._write(record, State.READY)
            case Step.GIVE_UP:
                await self._write(record, State.DESTROYING)
            case Step.FORGET:
                await asyncio.to_thread(self._records.drop, record.device)
            case Step.REFUSE:
                raise dra.DraError(
                    f"{record.device} was not made by this driver: somebody made an instance in its place; "
                    "destroy it (nvidia-smi mig -dci, -dgi) or ask for another device"
                )
            case Step.DONE:
                return
            case Step.MAKE_GPU_INSTANCE:
                await self._make_gpu_instance(record)
            case _:
                await self._cards.call(lambda hardware: _change(hardware, step, record))

    async def _make_gpu_instance(self, record: Record) -> None:
        place = _place(record)
        try:
            await self._cards.call(
                lambda hardware: hardware.create_gpu_instance(record.gpu, place.profile, place.placement)
            )
        except InsufficientResourcesError as error:
            # Nothing was created. An instance at this place is not the driver's, so only the record is removed.
            await asyncio.to_thread(self._records.drop, record.device)
            raise dra.DraError(f"{record.device}: something else has what it needs: {error}") from error

    async def _write(self, record: Record, state: State) -> None:
        whole = msgspec.structs.replace(record, state=state, boot=self._records.boot)
        await asyncio.to_thread(self._records.put, whole)


# The functions below run on the hardware's thread.


def _place(record: Record) -> Place:
    if record.place is None:
        raise dra.DraError(f"{record.device} is no MIG device that is made")
    return record.place


def _instance(hardware: Hardware, record: Record) -> GpuInstance | None:
    place = _place(record)
    return next(
        (
            each
            for each in hardware.gpu_instances(record.gpu)
            if (each.profile_id, each.placement) == (place.profile, place.placement)
        ),
        None,
    )


def _found(hardware: Hardware, record: Record) -> Found:
    instance = _instance(hardware, record)
    if instance is None:
        return Found.NOTHING
    return Found.WHOLE if hardware.compute_instances(record.gpu, instance.id) else Found.HALF


def _change(hardware: Hardware, step: Step, record: Record) -> None:
    instance = _instance(hardware, record)
    if instance is None:
        return  # it no longer exists; the next look finds that
    try:
        if step is Step.MAKE_COMPUTE_INSTANCE:
            hardware.create_compute_instance(record.gpu, instance.id)
        elif step is Step.DESTROY_COMPUTE_INSTANCES:
            for compute in hardware.compute_instances(record.gpu, instance.id):
                hardware.destroy_compute_instance(record.gpu, instance.id, compute.id)
        else:
            hardware.destroy_gpu_instance(record.gpu, instance.id)
    except InstanceNotFoundError:
        return


def _device(hardware: Hardware, record: Record) -> MigDevice:
    instance = _instance(hardware, record)
    for device in hardware.mig_devices(record.gpu):
        if instance is not None and device.gpu_instance == instance.id:
            return device
    raise dra.DraError(f"{record.device} was made and is gone again")
