"""Makes devices usable for claims, and takes them back.

| step for memory | if the process dies right after it |
|---|---|
| 1 record: making | the next `ensure` continues; `release` removes the record |
| 2 region with a character device | the next `ensure` finds it, and clears it; `release` takes it back |
| 3 memory cleared | the next `ensure` clears it again: it cannot know who wrote since then |
| 4 system RAM, if the claim asks for it | the next `ensure` brings it offline, and begins again |
| 5 record: usable | the next `ensure` returns at once |

| step of `release` | if the process dies right after it |
|---|---|
| 1 record: taking back | the next `release` continues; an `ensure` begins again |
| 2 memory offline, region removed | the next `release` finds nothing, and continues |
| 3 record removed | nothing is left |

Of an accelerator nothing is made: it has a record while a claim has it, for its health.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final, TypeVar

import msgspec

import dradriver as dra
from dradriver_fabric_cxl.accelerator import Accelerators, AttachedAccelerator
from dradriver_fabric_cxl.memory import (
    MemoryInUseError,
    MemoryMode,
    NodeMemory,
    UsableMemory,
)
from dradriver_fabric_cxl.node.errors import (
    NoAttachedDataError,
    SerialInUseError,
    SystemRamNotAllowedError,
)
from dradriver_fabric_cxl.node.plugged import wait_for_accelerator, wait_for_memory
from dradriver_fabric_cxl.node.records import DeviceRecord, RecordState, RecordStore
from dradriver_fabric_cxl.node.settings import CxlNodeSettings
from dradriver_fabric_cxl.node.status import DeviceProblems, find_problems
from dradriver_fabric_cxl.node.wanted import make_record

__all__ = ["NodeDevices"]

T = TypeVar("T")
_log: Final = logging.getLogger(__name__)
_POLL_SECONDS: Final = 0.1
"""Seconds between two attempts to take a lock."""


class NodeDevices:
    """The devices that claims have on this node.

    Calls for one device, also of two processes during a rolling update, wait for each other.

    Args:
        memory: the open memory of the node.
        accelerators: the accelerators of the node.
        records: the records.
        settings: the operator's settings.
    """

    def __init__(
        self, memory: NodeMemory, accelerators: Accelerators, records: RecordStore, settings: CxlNodeSettings
    ) -> None:
        self._memory = memory
        self._accelerators = accelerators
        self._records = records
        self._settings = settings

    async def ensure(self, claim: str, device: dra.AllocatedDevice) -> UsableMemory | AttachedAccelerator:
        """Make a device usable for a claim, and return it. Returns at once if it is usable for this claim.

        Args:
            claim: UID of the claim.
            device: the device, with the data of the pool driver.

        Raises:
            DraError: see `node.errors`, and the errors of `Memory.make` and `Memory.clear`.
        """
        record = make_record(claim, device, self._records.boot)
        async with self._lock(record.serial):
            if record.mode is None:
                return await self._ensure_accelerator(record)
            return await self._ensure_memory(record, record.mode)

    async def release(self, claim: dra.Claim) -> None:
        """Take back everything that a claim has on this node; a no-op if it has nothing.

        Devices whose record was lost are found by the data in the claim.

        Args:
            claim: the claim, which no pod on this node uses any more.

        Raises:
            MemoryInUseError: memory cannot be brought offline, or a program has it open. The claim keeps it,
                and the caller must try again. Everything else is taken back. It is also raised if nothing is
                known of the claim, and memory is usable that no record names: it may be the claim's.
            DraError: the kernel or the disk refuses.
        """
        everything = await _run(self._records.all)
        records = [record for record in everything if record.claim == claim.uid]
        if not records and not claim.devices:
            await self._check_nothing_is_unrecorded({record.serial for record in everything})
        recorded = {(record.pool, record.device, record.share) for record in records}
        for device in claim.devices:
            if device.admin_access or (device.pool, device.name, device.share_id) in recorded:
                continue
            with suppress(NoAttachedDataError):  # the fabric has attached nothing
                records.append(make_record(claim.uid, device, self._records.boot))
        for answer in await asyncio.gather(*map(self._release, records), return_exceptions=True):
            if answer is not None:
                raise answer

    async def recover(self) -> None:
        """Remove what earlier boots and pulled devices left. Call it at start; failures are logged."""
        for record in await _run(self._records.all):
            if record.boot != self._records.boot:
                with _log_failure():
                    await self._release(record)
        with _log_failure():
            if removed := await self._memory.remove_abandoned():
                _log.warning("removed regions of memory that was pulled: %s", ", ".join(removed))

    async def list_claims(self) -> Collection[str]:
        """Return the UIDs of the claims that have a device on this node, or had one before a reboot."""
        return {record.claim for record in await _run(self._records.all)}

    async def find_problems(self) -> DeviceProblems:
        """Return why devices of claims do not work.

        Raises:
            DraError: the devices or the records cannot be read.
        """
        records = await self._list_records()
        memory = await self._memory.devices() if any(each.mode is not None for each in records) else ()
        return find_problems(records, memory, await asyncio.to_thread(self._accelerators.devices))

    async def _check_nothing_is_unrecorded(self, recorded: Collection[int]) -> None:
        """Check that each usable memory has a record; otherwise records of this boot were lost.

        If the fabric detached such memory, the node would have RAM that does not exist. It is not taken back
        either: it may belong to a claim that is prepared again only later, or to the node itself.

        Raises:
            MemoryInUseError: memory without a record is usable.
        """
        for memory in await self._memory.devices():
            if memory.usable is not None and memory.serial not in recorded:
                raise MemoryInUseError(
                    f"{memory.usable.region} has memory {memory.serial:#x}, and no record names its claim: were"
                    " the driver's files deleted? Remove the region, or reboot the node"
                )

    async def _ensure_memory(self, wanted: DeviceRecord, mode: MemoryMode) -> UsableMemory:
        if mode is MemoryMode.SYSTEM_RAM and not self._settings.system_ram:
            raise SystemRamNotAllowedError(
                f"device {wanted.pool}/{wanted.device}: the mode system-ram is not allowed on this node"
                " (setting systemRam)"
            )
        stored = await self._find_stored(wanted)
        usable = (await wait_for_memory(self._memory, wanted.serial, self._settings.wait_seconds)).usable
        is_recorded = stored is not None and stored.state is RecordState.USABLE and stored.mode is mode
        if is_recorded and usable is not None and usable.mode is mode:
            return usable
        await self._put(wanted, RecordState.MAKING)
        usable = await self._memory.make(wanted.serial, MemoryMode.DEVDAX)
        if self._settings.clear:
            _log.info("clearing memory %#x (%d MiB)", wanted.serial, usable.bytes >> 20)
            await self._memory.clear(wanted.serial, lambda _: None)
        if mode is MemoryMode.SYSTEM_RAM:
            usable = await self._memory.make(wanted.serial, mode)
        await self._put(wanted, RecordState.USABLE, usable)
        return usable

    async def _ensure_accelerator(self, wanted: DeviceRecord) -> AttachedAccelerator:
        stored = await self._find_stored(wanted)
        found = await wait_for_accelerator(self._accelerators, wanted.serial, self._settings.wait_seconds)
        if stored != (usable := msgspec.structs.replace(wanted, state=RecordState.USABLE)):
            await _run(lambda: self._records.put(usable))
        return found

    async def _release(self, record: DeviceRecord) -> None:
        async with self._lock(record.serial):
            if record.mode is not None and not await self._list_others(record):
                await self._put(record, RecordState.TAKING_BACK)
                await self._memory.take_back(record.serial)
            await _run(lambda: self._records.remove(record))

    async def _find_stored(self, wanted: DeviceRecord) -> DeviceRecord | None:
        """Return the stored record of this boot; None if there is none.

        Raises:
            SerialInUseError: another claim has the device.
        """
        for each in await self._list_others(wanted):
            raise SerialInUseError(
                f"device {wanted.pool}/{wanted.device}: the claim with UID {each.claim} has serial number"
                f" {each.serial:#x} as device {each.pool}/{each.device}"
            )
        records = await self._list_records()
        return next((each for each in records if each.key == wanted.key), None)

    async def _list_records(self) -> list[DeviceRecord]:
        """Return the records of this boot."""
        return [each for each in await _run(self._records.all) if each.boot == self._records.boot]

    async def _list_others(self, record: DeviceRecord) -> list[DeviceRecord]:
        """Return the records of this boot of other claims or devices with the same serial number."""
        records = await self._list_records()
        return [each for each in records if each.serial == record.serial and each.key != record.key]

    async def _put(self, record: DeviceRecord, state: RecordState, usable: UsableMemory | None = None) -> None:
        changed = msgspec.structs.replace(
            record,
            state=state,
            region=usable.region if usable is not None else record.region,
            dax=usable.dax if usable is not None else record.dax,
        )
        await _run(lambda: self._records.put(changed))

    @asynccontextmanager
    async def _lock(self, serial: int) -> AsyncIterator[None]:
        """Wait until nobody else works on a device."""
        lock = self._records.make_lock(serial)
        try:
            while not await _run(lock.acquire):  # noqa: ASYNC110 - another process may hold it
                await asyncio.sleep(_POLL_SECONDS)
            yield
        finally:
            lock.release()


@contextmanager
def _log_failure() -> Iterator[None]:
    try:
        yield
    except dra.DraError as error:
        _log.warning("memory that an earlier process left cannot be taken back now: %s", error)


async def _run(action: Callable[[], T]) -> T:
    """Run a short call on a thread. It ends before this call, even if the caller is canceled."""
    task = asyncio.create_task(asyncio.to_thread(action))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
