"""Prepare a claim in four stages, under the claim's lock.

    looked up              recorded             prepared                 answered
    AllocatedClaim  --->  StoredClaim  --->  PreparedByDriver  --->  list[DeviceAnswer]

| side effect                             | if the process dies right after it                            |
|-----------------------------------------|---------------------------------------------------------------|
| claim checked and recorded as preparing | the next prepare continues, or unprepare reverts it           |
| usage note written (`node.usage`)       | the next prepare continues, or unprepare reverts it           |
| `driver.prepare`                        | the next prepare or unprepare calls the idempotent driver     |
| device metadata and CDI spec written    | the next prepare writes them again, or unprepare removes them |
| claim recorded as prepared              | the next prepare answers from the record                      |

If the claim is recorded as unpreparing, or with other devices, it is unprepared first (`unprepare`). One
transaction checks the claim and records it. So two conflicting claims cannot both pass the check, not even in
two processes.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from dradriver.driver.claim import AllocatedDevice, Claim
from dradriver.driver.prepared import PreparedDevice
from dradriver.driver.source_locations import find_definition
from dradriver.errors import DraError
from dradriver.model.cdi import ContainerEdits
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.claims.context import ClaimContext
from dradriver.node.claims.driver_results import record_answers
from dradriver.node.claims.lookup import AllocatedClaim, to_allocated_claim, to_driver_claim
from dradriver.node.claims.operations import OperationProgress, format_devices
from dradriver.node.claims.unprepare import revert_prepare
from dradriver.node.crash_points import CrashPoint
from dradriver.node.devices.attachment_wait import check_attached
from dradriver.node.errors import AllocationEndedError, IncompleteStateError, NotAttachedError, StateError
from dradriver.node.files.claim_files import DeviceAnswer
from dradriver.node.reporting.redaction import redact_error
from dradriver.node.state.claim_states import ClaimEvent, ClaimState, NextStep, next_step
from dradriver.node.state.records import ClaimRecord, PreparedClaimRecord
from dradriver.node.state.rows import Rows

__all__ = ["check_free", "look_up_shared_pools", "prepare", "record_claim"]


@dataclass(frozen=True, slots=True)
class StoredClaim:
    """A claim that has a record.

    Attributes:
        step: the next step of the prepare.
        record: the record.
        claim: the claim for the driver, if it was recorded just now. Otherwise None: another version of the
            driver may have written the record, so its configuration is decoded later and less strictly.
    """

    step: NextStep
    record: ClaimRecord
    claim: Claim | None = None


@dataclass(frozen=True, slots=True)
class PreparedByDriver:
    """A claim that the driver has prepared.

    Attributes:
        preparing: the record of the claim as preparing.
        record: the record with the driver's answers.
        returned: the result of `driver.prepare`. Messages must not quote it.
    """

    preparing: ClaimRecord
    record: ClaimRecord
    returned: Mapping[AllocatedDevice, PreparedDevice | ContainerEdits]


async def prepare(
    context: ClaimContext, claim: ResourceClaim, seconds: float | None = None, *, rebuilding: bool = False
) -> list[DeviceAnswer]:
    """Make the claim's devices ready; repeated calls return the same answer.

    Args:
        context: the parts of the node.
        claim: the claim as the API server has it now.
        seconds: maximum time to wait. None: `context.deadline`.
        rebuilding: True if the caller rebuilds the state. The call then does not wait for a complete state.

    Returns:
        One answer for each device, in the order of the allocation. Empty if no device belongs to this driver.

    Raises:
        InProgressError: the prepare takes longer than `seconds`, and continues; or a pool driver has not
            attached a device of the claim yet. The caller must retry.
        DeviceInUseError: another claim holds one of the devices, consumes counters that this claim needs, or
            holds incompatible devices.
        DraError: any other error of the claim, the driver or the disk.
    """
    allocated = to_allocated_claim(claim, context.driver.name, context.node)
    if not allocated.record.devices:
        return []
    clock, ref, seconds = asyncio.get_running_loop().time, allocated.record.ref, seconds or context.deadline
    if not rebuilding:
        seconds = await context.wait_for_complete_state("prepare", ref, seconds)
    until = clock() + seconds
    while True:
        work = partial(_run, context, allocated, rebuilding)
        subject = (allocated.record.allocated, allocated.record.allocation)
        try:
            return await context.operations.run("prepare", ref, subject, work, until - clock())
        except NotAttachedError:
            # The operation has ended, so an unprepare need not wait for the pool driver.
            changed = await context.changes.wait(allocated.claim, until) if context.changes else None
            if changed is None:
                raise
            allocated = to_allocated_claim(changed, context.driver.name, context.node)


async def check_free(context: ClaimContext, claim: ResourceClaim) -> None:
    """Check that the claim does not conflict with recorded claims now; records nothing.

    Raises:
        DeviceInUseError: the claim conflicts with a recorded claim.
        DraError: the claim is not for this node, or the API server did not answer.
    """
    await context.inventory.wait_known(context.deadline)
    allocated = to_allocated_claim(claim, context.driver.name, context.node)
    await look_up_shared_pools(context, allocated.record)

    def check(rows: Rows) -> None:
        if rows.get(allocated.record.uid) is None:
            context.acceptance.check_hold(allocated, rows)

    await context.stores.state.read(check)


async def _run(
    context: ClaimContext,
    allocated: AllocatedClaim,
    rebuilding: bool,  # noqa: FBT001 - from a partial
    progress: OperationProgress,
) -> list[DeviceAnswer]:
    progress.enter("waiting for the claim's lock")
    with _redact_errors(allocated.record):
        async with context.stores.locks.hold(allocated.record.uid):
            await _await_devices(context, allocated, progress)
            recorded = await record_claim(
                context, allocated, progress, rebuilding=rebuilding, needs_attached=not rebuilding
            )
            if recorded.step is NextStep.ANSWER:
                return await _answer_again(context, recorded)
            context.observe(CrashPoint.PREPARE_RECORDED, allocated.record.uid)
            if not rebuilding:  # a claim that was prepared earlier is in use already
                await _note_use(context, recorded.record, allocated.claim, progress)
            prepared = await _call_driver(context, recorded, progress)
            with _redact_errors(prepared.preparing, prepared.returned):
                return await _finish(context, prepared, progress)


# --- looked up ----------------------------------------------------------------------------------


async def _await_devices(context: ClaimContext, allocated: AllocatedClaim, progress: OperationProgress) -> None:
    """Wait until the devices are known, unless the claim is answered from its record."""
    inventory, record = context.inventory, allocated.record
    if inventory.is_known and not inventory.select_shared(record.published_pools):
        return
    row = await context.stores.state.read(lambda rows: rows.get(record.uid))
    if _next_step(context, row, record) is NextStep.ANSWER:
        return
    progress.enter("waiting for driver.discover")
    await inventory.wait_known(context.deadline)
    if inventory.select_shared(record.published_pools):
        progress.enter("looking up the pool")
        await look_up_shared_pools(context, record)


async def look_up_shared_pools(context: ClaimContext, record: ClaimRecord) -> None:
    """Look up those of the claim's pools that the control plane publishes.

    The pools are looked up again for each claim, because the plugin does not watch them.

    Raises:
        DraError: the API server did not answer.
    """
    if elsewhere := context.inventory.select_shared(record.published_pools):
        context.inventory.set_shared(await context.look_up_pools(elsewhere))


# --- recorded -----------------------------------------------------------------------------------


async def record_claim(
    context: ClaimContext,
    allocated: AllocatedClaim,
    progress: OperationProgress | None = None,
    *,
    rebuilding: bool = False,
    needs_attached: bool = False,
) -> StoredClaim:
    """Record a claim as preparing, unless it is prepared; the caller must hold the claim's lock.

    If the record is of another allocation, or says that the claim is unpreparing, the claim is unprepared
    first. If the process dies right after the claim is recorded, the next prepare continues, or unprepare
    reverts it.

    Args:
        context: the parts of the node.
        allocated: the claim.
        progress: receives the current step. None: no operation waits for this call.
        rebuilding: True if the caller rebuilds the state.
        needs_attached: True: record a claim that is not prepared yet only if its pool driver has attached its
            devices (`check_attached`).

    Returns:
        The record, and the next step of a prepare: never `UNPREPARE`.

    Raises:
        DraError: the claim conflicts with a recorded claim, or the state cannot be written, or `unprepare`
            failed.
    """
    progress = progress or OperationProgress()
    begin = partial(_begin, context, allocated, rebuilding, needs_attached)
    recorded = await _record(context, begin, progress)
    while recorded.step is NextStep.UNPREPARE:
        await revert_prepare(context, recorded.record, progress)
        recorded = await _record(context, begin, progress)
    return recorded


async def _note_use(
    context: ClaimContext, record: ClaimRecord, claim: ResourceClaim, progress: OperationProgress
) -> None:
    """Write the node's usage note, and check that the allocation still stands."""
    progress.enter("writing the usage note")
    try:
        await context.note_use(record, claim)
    except AllocationEndedError:
        await context.stores.state.write(lambda rows: rows.move(record, ClaimEvent.BEGIN_UNPREPARE))
        await revert_prepare(context, record, progress)
        raise


async def _record(
    context: ClaimContext, begin: Callable[[Rows], StoredClaim], progress: OperationProgress
) -> StoredClaim:
    progress.enter("recording the claim")
    try:
        return await context.stores.state.write(begin)
    except IncompleteStateError:
        # The next call waits for the rebuilding. This call must not wait: it has the lock that rebuilding
        # needs.
        context.state_complete.clear()
        raise


def _begin(
    context: ClaimContext,
    allocated: AllocatedClaim,
    rebuilding: bool,  # noqa: FBT001 - from a partial
    needs_attached: bool,  # noqa: FBT001
    rows: Rows,
) -> StoredClaim:
    """Run the transaction that begins a prepare."""
    if not (rebuilding or rows.is_complete()):
        path = context.stores.state.path
        raise IncompleteStateError(
            f"prepared state {path} was replaced and is checked or rebuilt first; call again"
        )
    row = rows.get(allocated.record.uid)
    step = _next_step(context, row, allocated.record)
    is_new = step is not NextStep.UNPREPARE and (row is None or row.state is ClaimState.PREPARING)
    if needs_attached and is_new:
        check_attached(allocated.claim, context.driver.name, context.inventory)
    if row is None:
        # An invalid configuration must not leave a record, so it is decoded first.
        claim = to_driver_claim(allocated.record, context.driver, context.inventory, strict=True)
        accepted = context.acceptance.check(allocated, rows)
        return StoredClaim(step, rows.move(accepted, ClaimEvent.BEGIN_PREPARE).record, claim)
    if step is NextStep.ADOPT:
        event = ClaimEvent.REBOOT if row.state is ClaimState.PREPARED else ClaimEvent.BEGIN_PREPARE
        # If a rebuild recorded the claim while its pod waited for the devices, the record lacks their data.
        adopted = row.record.fill_data(allocated.record)
        rows.move(msgspec.structs.replace(adopted, answers=[]), event)
        return StoredClaim(step, adopted)
    if step is NextStep.UNPREPARE:
        rows.move(row.record, ClaimEvent.BEGIN_UNPREPARE)
    return StoredClaim(step, row.record)


def _next_step(context: ClaimContext, row: PreparedClaimRecord | None, wanted: ClaimRecord) -> NextStep:
    if row is None:
        return next_step(ClaimState.ABSENT, same_devices=True, same_boot=True)
    same_devices = row.record.allocation == wanted.allocation
    if context.inventory.select_shared(wanted.pools):
        # The publisher detaches the devices of the earlier allocation, so the driver must begin again.
        same_devices &= row.record.has_time_of(wanted)
        if row.state is ClaimState.PREPARING:
            # The times of two allocations can be equal. If it is prepared, its containers use the old data.
            same_devices &= row.record.has_data_of(wanted)
    return next_step(
        row.state,
        same_devices=same_devices,
        same_boot=row.boot_id == context.stores.state.boot_id,
    )


# --- prepared -----------------------------------------------------------------------------------


async def _call_driver(
    context: ClaimContext, recorded: StoredClaim, progress: OperationProgress
) -> PreparedByDriver:
    driver, record = context.driver, recorded.record
    claim = recorded.claim or to_driver_claim(record, driver, context.inventory, strict=False)
    progress.enter(f"driver.prepare of {format_devices(record)}")
    returned = await context.calls.call(driver.prepare, claim, about=f" of claim {record.ref}")
    context.observe(CrashPoint.PREPARE_DRIVER_DONE, record.uid)
    with _redact_errors(record, returned):
        answers = record_answers(driver.name, claim, returned, find_definition(driver.prepare))
    return PreparedByDriver(record, msgspec.structs.replace(record, answers=answers), returned)


# --- answered -----------------------------------------------------------------------------------


async def _finish(
    context: ClaimContext, prepared: PreparedByDriver, progress: OperationProgress
) -> list[DeviceAnswer]:
    """Write the claim's files, record the claim as prepared, and return the answer."""
    files, state, record = context.stores.files, context.stores.state, prepared.record
    try:
        progress.enter("writing the CDI spec and recording the claim")
        await state.write(
            lambda rows: rows.move(record, ClaimEvent.FINISH_PREPARE),
            first=partial(files.write, files.compute_contents(record)),
        )
    except StateError:
        # The disk may be full. The devices are released, because the prepare cannot be completed. If the
        # release fails too, the claim stays recorded as preparing.
        with suppress(DraError):
            await state.write(lambda rows: rows.move(prepared.preparing, ClaimEvent.BEGIN_UNPREPARE))
            await revert_prepare(context, prepared.preparing, progress)
        raise
    context.observe(CrashPoint.PREPARE_FINISHED, record.uid)
    context.on_prepared(record)
    return files.answers(record)


async def _answer_again(context: ClaimContext, recorded: StoredClaim) -> list[DeviceAnswer]:
    """Restore the claim's files, and answer from the record."""
    files = context.stores.files
    await context.run_in_thread(files.write, files.compute_contents(recorded.record))
    return files.answers(recorded.record)


@contextmanager
def _redact_errors(record: ClaimRecord, returned: object = None) -> Iterator[None]:
    """Keep the claim's configuration and the driver's result out of error messages."""
    try:
        yield
    except DraError as error:
        redact_error(error, record, returned)
        raise
