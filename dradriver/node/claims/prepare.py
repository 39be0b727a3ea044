"""Prepare: a claim passes four stages under its lock, and each value is computed once.

    looked up              recorded             prepared                 answered
    AllocatedClaim  --->  RecordedClaim  --->  PreparedByDriver  --->  list[DeviceAnswer]

| side effect                             | if the process dies right after it             |
|-----------------------------------------|------------------------------------------------|
| checked and recorded as preparing       | next prepare adopts it, or unprepare ends it   |
| `driver.prepare`                        | the same: the driver's methods are idempotent  |
| device metadata and CDI spec written    | the same: the same files are written again     |
| recorded as prepared, with the answers  | next prepare answers from the record           |

A claim that is recorded as unpreparing, or for other devices, is unprepared first (`unprepare`). The check and
the record are one transaction, so two claims cannot both pass the check, not even in two processes.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from dradriver.driver.claim import AllocatedDevice, Claim
from dradriver.driver.code_places import defined_at
from dradriver.driver.prepared import PreparedDevice
from dradriver.errors import DraError
from dradriver.model.cdi import ContainerEdits
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.claims.context import ClaimContext
from dradriver.node.claims.driver_results import recorded_answers
from dradriver.node.claims.lookup import AllocatedClaim, allocated_claim, driver_claim
from dradriver.node.claims.operations import OperationProgress, device_names
from dradriver.node.claims.unprepare import take_back
from dradriver.node.crash_points import CrashPoint
from dradriver.node.errors import IncompleteStateError, StateError
from dradriver.node.files.claim_files import DeviceAnswer
from dradriver.node.reporting.redaction import redacted
from dradriver.node.state.claim_states import ClaimEvent, ClaimState, NextStep, next_step
from dradriver.node.state.records import ClaimRecord, PreparedClaimRecord
from dradriver.node.state.rows import Rows

__all__ = ["check_free", "find_devices", "prepare"]


@dataclass(frozen=True, slots=True)
class RecordedClaim:
    """A claim that has a record.

    Attributes:
        step: the next step.
        record: the record.
        claim: the claim for the driver. None unless it was recorded just now: another version may have written
            an older record, so its configuration is decoded less strictly.
    """

    step: NextStep
    record: ClaimRecord
    claim: Claim | None = None


@dataclass(frozen=True, slots=True)
class PreparedByDriver:
    """A claim that the driver has prepared.

    Attributes:
        begun: the record of the claim as preparing.
        record: the same record with the driver's answers.
        returned: the result of `driver.prepare`. Messages must not quote it.
    """

    begun: ClaimRecord
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
        rebuilding: the caller completes the state, so the call does not wait for a complete state.

    Returns:
        One answer for each device, in the order of the allocation. Empty if no device belongs to this driver.

    Raises:
        InProgressError: the prepare takes longer; call again.
        DeviceInUseError: another claim has a device or its counters, or is not compatible.
        DraError: any other error of the claim, the driver or the disk.
    """
    allocated = allocated_claim(claim, context.driver.name, context.node)
    if not allocated.record.devices:
        return []
    ref, seconds = allocated.record.ref, seconds or context.deadline
    if not rebuilding:
        seconds = await context.until_state_complete("prepare", ref, seconds)
    work = partial(_run, context, allocated, rebuilding)
    return await context.operations.run("prepare", ref, allocated.record.allocation, work, seconds)


async def check_free(context: ClaimContext, claim: ResourceClaim) -> None:
    """Check that no other claim prevents a prepare of this claim now; records nothing.

    Raises:
        DeviceInUseError: another claim prevents it.
        DraError: the claim is not for this node.
    """
    await context.inventory.ready(context.deadline)
    allocated = allocated_claim(claim, context.driver.name, context.node)

    def look(rows: Rows) -> None:
        if rows.get(allocated.record.uid) is None:
            context.acceptance.held(allocated, rows)

    await context.stores.state.read(look)


async def _run(
    context: ClaimContext,
    allocated: AllocatedClaim,
    rebuilding: bool,  # noqa: FBT001 - from a partial
    progress: OperationProgress,
) -> list[DeviceAnswer]:
    progress.at("waiting for the claim's lock")
    with _redacting(allocated.record):
        async with context.stores.locks.hold(allocated.record.uid):
            await _know_devices(context, allocated, progress)
            recorded = await _record(context, allocated, progress, rebuilding=rebuilding)
            while recorded.step is NextStep.UNPREPARE:
                await take_back(context, recorded.record, progress)
                recorded = await _record(context, allocated, progress, rebuilding=rebuilding)
            if recorded.step is NextStep.ANSWER:
                return await _answer_again(context, recorded)
            context.observe(CrashPoint.PREPARE_RECORDED, allocated.record.uid)
            prepared = await _call_driver(context, recorded, progress)
            with _redacting(prepared.begun, prepared.returned):
                return await _finish(context, prepared, progress)


# --- looked up ----------------------------------------------------------------------------------


async def _know_devices(context: ClaimContext, allocated: AllocatedClaim, progress: OperationProgress) -> None:
    """Wait until the devices are known, unless the claim is answered from its record."""
    inventory, record = context.inventory, allocated.record
    if inventory.known and not inventory.elsewhere(record.pools):
        return
    row = await context.stores.state.read(lambda rows: rows.get(record.uid))
    if _next_step(context, row, record) is NextStep.ANSWER:
        return
    progress.at("waiting for driver.discover")
    await inventory.ready(context.deadline)
    if inventory.elsewhere(record.pools):
        progress.at("looking up the pool")
        await find_devices(context, record)


async def find_devices(context: ClaimContext, record: ClaimRecord) -> None:
    """Look up the pools of the claim that are published elsewhere.

    They are looked up again for each claim, because they are not watched.

    Raises:
        DraError: the API server did not answer.
    """
    if elsewhere := context.inventory.elsewhere(record.pools):
        context.inventory.set_shared(await context.look_up_pools(elsewhere))


# --- recorded -----------------------------------------------------------------------------------


async def _record(
    context: ClaimContext, allocated: AllocatedClaim, progress: OperationProgress, *, rebuilding: bool
) -> RecordedClaim:
    progress.at("recording the claim")
    try:
        return await context.stores.state.write(
            partial(_begin, context, allocated, rebuilding),
        )
    except IncompleteStateError:
        # The next call waits for the rebuilding. This call must not: it has the lock that rebuilding needs.
        context.state_complete.clear()
        raise


def _begin(
    context: ClaimContext,
    allocated: AllocatedClaim,
    rebuilding: bool,  # noqa: FBT001 - from a partial
    rows: Rows,
) -> RecordedClaim:
    """Run the transaction that begins a prepare."""
    if not (rebuilding or rows.complete()):
        path = context.stores.state.path
        raise IncompleteStateError(
            f"prepared state {path} was replaced and is checked or rebuilt first; call again"
        )
    row = rows.get(allocated.record.uid)
    step = _next_step(context, row, allocated.record)
    if row is None:
        # An invalid configuration must not leave a record, so it is decoded first.
        claim = driver_claim(allocated.record, context.driver, context.inventory, strict=True)
        accepted = context.acceptance.accepted(allocated, rows)
        return RecordedClaim(step, rows.move(accepted, ClaimEvent.BEGIN_PREPARE).record, claim)
    if step is NextStep.ADOPT:
        event = ClaimEvent.REBOOT if row.state is ClaimState.PREPARED else ClaimEvent.BEGIN_PREPARE
        rows.move(msgspec.structs.replace(row.record, answers=[]), event)
    if step is NextStep.UNPREPARE:
        rows.move(row.record, ClaimEvent.BEGIN_UNPREPARE)
    return RecordedClaim(step, row.record)


def _next_step(context: ClaimContext, row: PreparedClaimRecord | None, wanted: ClaimRecord) -> NextStep:
    if row is None:
        return next_step(ClaimState.ABSENT, same_devices=True, same_boot=True)
    return next_step(
        row.state,
        same_devices=row.record.allocation == wanted.allocation,
        same_boot=row.boot_id == context.stores.state.boot_id,
    )


# --- prepared -----------------------------------------------------------------------------------


async def _call_driver(
    context: ClaimContext, recorded: RecordedClaim, progress: OperationProgress
) -> PreparedByDriver:
    driver, record = context.driver, recorded.record
    claim = recorded.claim or driver_claim(record, driver, context.inventory, strict=False)
    progress.at(f"driver.prepare of {device_names(record)}")
    returned = await context.calls.call(driver.prepare, claim, about=f" of claim {record.ref}")
    context.observe(CrashPoint.PREPARE_DRIVER_DONE, record.uid)
    with _redacting(record, returned):
        answers = recorded_answers(driver.name, claim, returned, defined_at(driver.prepare))
    return PreparedByDriver(record, msgspec.structs.replace(record, answers=answers), returned)


# --- answered -----------------------------------------------------------------------------------


async def _finish(
    context: ClaimContext, prepared: PreparedByDriver, progress: OperationProgress
) -> list[DeviceAnswer]:
    """Write the claim's files, record the claim as prepared, and return the answer."""
    files, state, record = context.stores.files, context.stores.state, prepared.record
    try:
        progress.at("writing the CDI spec and recording the claim")
        await state.write(
            lambda rows: rows.move(record, ClaimEvent.FINISH_PREPARE),
            first=partial(files.write, files.texts(record)),
        )
    except StateError:
        # The disk is full. The device is released instead of kept for a claim that cannot be completed. If that
        # fails too, the claim stays recorded as preparing.
        with suppress(DraError):
            await state.write(lambda rows: rows.move(prepared.begun, ClaimEvent.BEGIN_UNPREPARE))
            await take_back(context, prepared.begun, progress)
        raise
    context.observe(CrashPoint.PREPARE_FINISHED, record.uid)
    context.on_prepared(record)
    return files.answers(record)


async def _answer_again(context: ClaimContext, recorded: RecordedClaim) -> list[DeviceAnswer]:
    """Answer from the record, after its files are restored."""
    files = context.stores.files
    await context.in_thread(files.write, files.texts(recorded.record))
    return files.answers(recorded.record)


@contextmanager
def _redacting(record: ClaimRecord, returned: object = None) -> Iterator[None]:
    """Keep the claim's configuration and the driver's result out of error messages."""
    try:
        yield
    except DraError as error:
        redacted(error, record, returned)
        raise
