"""Prepare and unprepare: the order of side effects on one claim, under the claim's lock.

| prepare                                 | killed right after it                          |
|-----------------------------------------|------------------------------------------------|
| checked and recorded as preparing       | next prepare adopts it, or unprepare ends it   |
| `driver.prepare`                        | the same: the driver's methods are idempotent  |
| device metadata and CDI spec written    | the same: the same files are written again     |
| recorded as prepared, with the answers  | next prepare answers from the record           |

| unprepare                               | killed right after it                          |
|-----------------------------------------|------------------------------------------------|
| recorded as unpreparing                 | next unprepare or collection goes on from here |
| `driver.unprepare`                      | the same                                       |
| CDI spec and device metadata removed    | the same                                       |
| record deleted                          | nothing is left                                |

A prepare that finds a claim unpreparing ends that first. The check and the record are one transaction, so two
claims can't both pass it, not even in two processes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import msgspec

from dradriver.aio.tasks import settled
from dradriver.driver.base import Driver
from dradriver.driver.claim import AllocatedDevice, Claim
from dradriver.driver.code_places import defined_at
from dradriver.errors import DraError, InvalidObjectError
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.claims.acceptance import Acceptance
from dradriver.node.claims.driver_results import recorded_answers
from dradriver.node.claims.lookup import decoded, recorded
from dradriver.node.claims.operations import Operations, Progress
from dradriver.node.crash_points import Observer, Step, unobserved
from dradriver.node.devices.inventory import Inventory
from dradriver.node.devices.shared_pools import LookUpPools, nowhere
from dradriver.node.driver_calls import DriverCalls
from dradriver.node.errors import IncompleteStateError, InProgressError, StateError
from dradriver.node.files.claim_files import ClaimFiles, DeviceAnswer
from dradriver.node.reporting.redaction import redacted
from dradriver.node.state.claim_states import ClaimEvent, ClaimState, NextStep, next_step
from dradriver.node.state.locks import ClaimLocks
from dradriver.node.state.records import (
    ClaimRecord,
    ClaimRef,
    PreparedClaimRecord,
    RecordedAnswer,
    RecordedDevice,
)
from dradriver.node.state.rows import Rows
from dradriver.node.state.store import State

__all__ = ["Preparation", "Stores"]

T = TypeVar("T")

_FILE_THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class Stores:
    """Where it is kept what is prepared."""

    state: State
    files: ClaimFiles
    locks: ClaimLocks


def _nobody(record: ClaimRecord) -> None:
    """Nobody wants to know what was prepared."""


class Preparation:
    """Prepares and unprepares the claims of one driver on one node; `await drain()`, then `close()`.

    Args:
        calls: the driver.
        node: the node's name.
        inventory: what the driver has discovered.
        stores: where it is kept what is prepared.
        deadline: seconds after which a call is answered even if its work goes on.
        observe: is told of each side effect.
        on_prepared: is told of each claim that the driver has just prepared.
        look_up_pools: finds pools of this driver that are published elsewhere.
    """

    def __init__(
        self,
        calls: DriverCalls,
        node: str,
        inventory: Inventory,
        stores: Stores,
        *,
        deadline: float = 40.0,
        observe: Observer = unobserved,
        on_prepared: Callable[[ClaimRecord], None] = _nobody,
        look_up_pools: LookUpPools = nowhere,
    ) -> None:
        self._calls = calls
        self._driver = calls.driver
        self._node = node
        self._inventory = inventory
        self._acceptance = Acceptance(calls.driver.name, inventory)
        self._state, self._files, self._locks = stores.state, stores.files, stores.locks
        self._deadline = deadline
        self._observe = observe
        self._on_prepared = on_prepared
        self._look_up_pools = look_up_pools
        self._operations = Operations()
        self._threads = ThreadPoolExecutor(_FILE_THREADS, thread_name_prefix="claim-files")
        self.complete = asyncio.Event()
        """Set while the state knows every claim that is prepared here; nothing is prepared before."""

    async def drain(self, seconds: float) -> None:
        """Lets work in flight end; what has not ended after `seconds` is given up and adopted at next start."""
        await self._operations.drain(seconds)

    def close(self) -> None:
        """Lets go of the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def prepare(
        self, claim: ResourceClaim, seconds: float | None = None, *, rebuilding: bool = False
    ) -> list[DeviceAnswer]:
        """Makes the claim's devices ready; again and again with the same answer.

        Args:
            claim: as the API server has it now.
            seconds: how long to wait, the deadline by default.
            rebuilding: the caller is about to make the state complete, so don't wait for that.

        Raises:
            InProgressError: it takes longer; call again.
            DeviceInUseError: another claim has a device, its counters, or is not compatible.
            DraError: what else is wrong with the claim, the driver or the disk.
        """
        wanted = recorded(claim, self._driver.name, self._node, self._inventory)
        if not wanted.devices:
            return []  # all devices belong to other drivers
        seconds = seconds or self._deadline
        if not rebuilding:
            seconds = await self._until_complete("prepare", wanted.ref, seconds)
        work = partial(self._prepare, claim, wanted, rebuilding=rebuilding)
        return await self._operations.run("prepare", wanted.ref, wanted.allocation, work, seconds)

    async def unprepare(
        self,
        ref: ClaimRef,
        seconds: float | None = None,
        *,
        unless: Callable[[], Awaitable[bool]] | None = None,
        rebuilding: bool = False,
    ) -> None:
        """Takes back what was prepared for the claim; of an unknown claim, whatever the driver finds.

        Args:
            ref: the claim, which need not exist any more.
            seconds: how long to wait, the deadline by default.
            unless: asked under the claim's lock; True leaves the claim alone.
            rebuilding: the caller is about to make the state complete, so don't wait for that.

        Raises:
            InProgressError: it takes longer; call again.
            DraError: what is wrong with the driver or the disk.
        """
        seconds = seconds or self._deadline
        if not rebuilding:
            seconds = await self._until_complete("unprepare", ref, seconds)
        work = partial(self._unprepare, ref, unless)
        # Who wants it without conditions must not be content with work that may leave the claim alone.
        subject = None if unless is None else "if it is gone"
        await self._operations.run("unprepare", ref, subject, work, seconds)

    async def hold(self, claim: ResourceClaim) -> None:
        """Records that the claim may be prepared, without asking the driver: its devices are kept from others.

        Raises:
            DeviceInUseError: another claim is recorded for them; this one is not recorded then.
            DraError: the claim is not for this node, or can't be recorded.
        """
        await self._inventory.ready(self._deadline)
        wanted = recorded(claim, self._driver.name, self._node, self._inventory)
        if self._elsewhere(wanted):
            with suppress(DraError):  # what is not known keeps others away
                await self._look_up_shared(wanted)
            wanted = recorded(claim, self._driver.name, self._node, self._inventory)

        def work(rows: Rows) -> None:
            if rows.get(wanted.uid) is None:
                self._record(self._acceptance.held(wanted, rows), rows)

        async with self._locks.hold(wanted.uid):
            await self._state.write(work)

    async def forget(self, ref: ClaimRef) -> None:
        """Removes the record and the files of a claim whose devices belong to another one now.

        The driver is not asked to take anything back: it would take it from the other claim. A process that
        dies in between leaves a record, which the next rebuilding forgets.

        Raises:
            StateError: they can't be removed.
        """

        def work(rows: Rows) -> None:
            if (record := _begin_unprepare(ref, rows)) is not None:
                _finish_unprepare(record, rows)

        async with self._locks.hold(ref.uid):
            await self._state.write(work, first=partial(self._files.remove, ref))

    async def check_free(self, claim: ResourceClaim) -> None:
        """Looks whether no other claim keeps this one from being prepared now; records nothing.

        Raises:
            DeviceInUseError: another one does.
            DraError: the claim is not for this node.
        """
        await self._inventory.ready(self._deadline)
        wanted = recorded(claim, self._driver.name, self._node, self._inventory)

        def look(rows: Rows) -> None:
            if rows.get(wanted.uid) is None:
                self._acceptance.held(wanted, rows)

        await self._state.read(look)

    async def write_lost_files(self, uid: str) -> bool:
        """Writes the files of a prepared claim again if they are lost; True if the CDI spec was.

        A claim that is being worked on is left alone.

        Raises:
            StateError: they can't be written.
        """
        async with self._locks.hold_if_free(uid) as free:
            row = await self._state.read(lambda rows: rows.get(uid))
            if not free or row is None or row.state is not ClaimState.PREPARED:
                return False
            if row.boot_id != self._state.boot_id:
                return False  # what the driver answered in another boot may no longer be true
            return await self._in_thread(self._files.write, self._files.texts(row.record))

    async def remove_orphaned_files(self, uid: str) -> bool:
        """Removes files of a claim that is not recorded; True if it is not.

        A claim that is being worked on is left alone.

        Raises:
            StateError: they can't be removed.
        """
        async with self._locks.hold_if_free(uid) as free:
            # A file that is not complete knows too little to say that nobody owns them.
            orphaned = await self._state.read(lambda rows: rows.complete() and rows.get(uid) is None)
            if not (free and orphaned):
                return False
            await self._in_thread(self._files.remove, ClaimRef(uid))
            return True

    async def _prepare(
        self, claim: ResourceClaim, wanted: ClaimRecord, progress: Progress, *, rebuilding: bool
    ) -> list[DeviceAnswer]:
        try:
            return await self._prepare_openly(claim, progress, rebuilding=rebuilding)
        except DraError as error:
            redacted(error, wanted)
            raise

    async def _prepare_openly(
        self, claim: ResourceClaim, progress: Progress, *, rebuilding: bool
    ) -> list[DeviceAnswer]:
        """Its errors may quote what the claim is configured with."""
        uid = claim.metadata.uid
        progress.at("waiting for the claim's lock")
        async with self._locks.hold(uid):
            while True:
                wanted = await self._with_inventory(claim, progress)
                progress.at("recording the claim")
                step, record = await self._begun(wanted, rebuilding=rebuilding)
                if step is not NextStep.UNPREPARE:
                    break
                await self._take_back(record, progress)
            if step is NextStep.ANSWER:
                await self._in_thread(self._files.write, self._files.texts(record))
                return self._files.answers(record)
            self._observe(Step.PREPARE_RECORDED, uid)
            return await self._complete(record, progress, strict=step is NextStep.RECORD)

    async def _until_complete(self, kind: str, ref: ClaimRef, seconds: float) -> float:
        """The seconds that are left. Work begins after it: rebuilding must not wait for who waits for it."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        if self.complete.is_set():
            return seconds
        try:
            async with asyncio.timeout(seconds):
                await self.complete.wait()
        except TimeoutError:
            raise InProgressError(
                f"{kind} of claim {ref} has to wait: rebuilding the prepared state, waiting for the API server "
                "or for the driver's prepared_claims()"
            ) from None
        return until - clock()

    async def _with_inventory(self, claim: ResourceClaim, progress: Progress) -> ClaimRecord:
        """What to record of the claim; waits for the devices unless the claim is answered from the record."""
        wanted = recorded(claim, self._driver.name, self._node, self._inventory)
        if self._inventory.known and not self._elsewhere(wanted):
            return wanted
        row = await self._state.read(lambda rows: rows.get(wanted.uid))
        if self._next(row, wanted) is NextStep.ANSWER:
            return wanted
        progress.at("waiting for driver.discover")
        await self._inventory.ready(self._deadline)
        if self._elsewhere(wanted):
            progress.at("looking up the pool")
            await self._look_up_shared(wanted)
        return recorded(claim, self._driver.name, self._node, self._inventory)

    def _elsewhere(self, wanted: ClaimRecord) -> Collection[str]:
        return self._inventory.elsewhere(device.pool for device in wanted.devices)

    async def _look_up_shared(self, wanted: ClaimRecord) -> None:
        """Learns what is published elsewhere; anew for each claim, because nobody tells of changes."""
        self._inventory.set_shared(await self._look_up_pools(self._elsewhere(wanted)))

    def _next(self, row: PreparedClaimRecord | None, wanted: ClaimRecord) -> NextStep:
        if row is None:
            return next_step(ClaimState.ABSENT, same_devices=True, same_boot=True)
        return next_step(
            row.state,
            same_devices=row.record.allocation == wanted.allocation,
            same_boot=row.boot_id == self._state.boot_id,
        )

    async def _begun(self, wanted: ClaimRecord, *, rebuilding: bool) -> tuple[NextStep, ClaimRecord]:
        try:
            return await self._state.write(partial(self._begin, wanted, rebuilding=rebuilding))
        except IncompleteStateError:
            self.complete.clear()  # the next call waits for it; this one has the lock that rebuilding needs
            raise

    def _begin(self, wanted: ClaimRecord, rows: Rows, *, rebuilding: bool) -> tuple[NextStep, ClaimRecord]:
        """The transaction that begins a prepare."""
        if not (rebuilding or rows.complete()):
            raise IncompleteStateError(
                f"prepared state {self._state.path} was replaced and is checked or rebuilt first; call again"
            )
        row = rows.get(wanted.uid)
        step = self._next(row, wanted)
        if row is None:
            self._driver_claim(wanted, strict=True)  # what users sent wrongly must not leave a record
            return step, self._record(self._acceptance.accepted(wanted, rows), rows)
        if step is NextStep.ADOPT:
            event = ClaimEvent.REBOOT if row.state is ClaimState.PREPARED else ClaimEvent.BEGIN_PREPARE
            rows.move(msgspec.structs.replace(row.record, answers=[]), event)
        if step is NextStep.UNPREPARE:
            rows.move(row.record, ClaimEvent.BEGIN_UNPREPARE)
        return step, row.record

    @staticmethod
    def _record(accepted: ClaimRecord, rows: Rows) -> ClaimRecord:
        return rows.move(accepted, ClaimEvent.BEGIN_PREPARE).record

    async def _complete(self, record: ClaimRecord, progress: Progress, *, strict: bool) -> list[DeviceAnswer]:
        """From a recorded claim to a prepared one."""
        claim = self._driver_claim(record, strict=strict)
        progress.at(f"driver.prepare of {_devices(record)}")
        returned = await self._calls.call(self._driver.prepare, claim, about=f" of claim {record.ref}")
        self._observe(Step.PREPARE_DRIVER_DONE, record.uid)
        try:
            place = defined_at(self._driver.prepare)
            answers = recorded_answers(self._driver.name, claim, returned, place)
            return await self._finish(record, answers, progress)
        except DraError as error:
            redacted(error, record, returned)
            raise

    async def _finish(
        self, record: ClaimRecord, answers: list[RecordedAnswer], progress: Progress
    ) -> list[DeviceAnswer]:
        """From what the driver answered to a prepared claim."""
        prepared = msgspec.structs.replace(record, answers=answers)
        try:
            progress.at("writing the CDI spec and recording the claim")
            await self._state.write(
                lambda rows: rows.move(prepared, ClaimEvent.FINISH_PREPARE),
                first=partial(self._files.write, self._files.texts(prepared)),
            )
        except StateError:
            # A full disk: give the device back instead of keeping a claim that can't be finished. What fails of
            # this too stays recorded as half made.
            with suppress(DraError):
                await self._state.write(lambda rows: rows.move(record, ClaimEvent.BEGIN_UNPREPARE))
                await self._take_back(record, progress)
            raise
        self._observe(Step.PREPARE_FINISHED, record.uid)
        self._on_prepared(prepared)
        return self._files.answers(prepared)

    async def _unprepare(
        self,
        ref: ClaimRef,
        unless: Callable[[], Awaitable[bool]] | None,
        progress: Progress,
    ) -> None:
        progress.at("waiting for the claim's lock")
        async with self._locks.hold(ref.uid):
            if unless is not None and await unless():
                return
            progress.at("recording the claim")
            record = await self._state.write(partial(_begin_unprepare, ref))
            if record is not None:
                self._observe(Step.UNPREPARE_RECORDED, ref.uid)
            await self._take_back(
                record or ClaimRecord(uid=ref.uid, namespace=ref.namespace, name=ref.name), progress
            )

    async def _take_back(self, record: ClaimRecord, progress: Progress) -> None:
        """From a claim that is recorded as unpreparing, or not at all, to nothing."""
        progress.at(f"driver.unprepare of {_devices(record)}")
        try:
            claim = self._driver_claim(record, strict=False)
        except InvalidObjectError:
            # Stored by a version that knew this configuration; giving a device back must not depend on it.
            bare = [msgspec.structs.replace(device, parameters=[]) for device in record.devices]
            claim = self._driver_claim(msgspec.structs.replace(record, devices=bare), strict=False)
        try:
            if getattr(self._driver.unprepare, "__func__", None) is not Driver.unprepare:  # which does nothing
                await self._calls.call(self._driver.unprepare, claim, about=f" of claim {record.ref}")
        except DraError as error:
            redacted(error, record)
            raise
        self._observe(Step.UNPREPARE_DRIVER_DONE, record.uid)
        progress.at("removing the CDI spec and recording the claim")
        await self._state.write(
            partial(_finish_unprepare, record), first=partial(self._files.remove, record.ref)
        )
        self._observe(Step.UNPREPARE_FINISHED, record.uid)

    def _driver_claim(self, record: ClaimRecord, *, strict: bool) -> Claim:
        ref, known = record.ref, self._driver.configs

        def allocated(device: RecordedDevice) -> AllocatedDevice:
            configs = decoded(device, known, ref, strict=strict)
            return device.allocated(self._inventory.device(device.pool, device.device), configs)

        return Claim(ref.uid, ref.namespace, ref.name, tuple(map(allocated, record.devices)))

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await settled(loop.run_in_executor(self._threads, work, *arguments))


def _begin_unprepare(ref: ClaimRef, rows: Rows) -> ClaimRecord | None:
    row = rows.get(ref.uid)
    return None if row is None else rows.move(row.record, ClaimEvent.BEGIN_UNPREPARE).record


def _finish_unprepare(record: ClaimRecord, rows: Rows) -> None:
    if rows.get(record.uid) is not None:
        rows.move(record, ClaimEvent.FINISH_UNPREPARE)


def _devices(record: ClaimRecord) -> str:
    names = ", ".join(device.device for device in record.devices)
    return f"{'device' if len(record.devices) == 1 else 'devices'} {names}" if names else "an unknown claim"
