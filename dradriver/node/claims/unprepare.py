"""Unprepare a claim under the claim's lock: revert its prepare.

| side effect                          | if the process dies right after it                      |
|--------------------------------------|---------------------------------------------------------|
| claim recorded as unpreparing        | the next unprepare or collection continues              |
| `driver.unprepare`                   | the next unprepare or collection calls the driver again |
| CDI spec and device metadata removed | the next unprepare or collection continues              |
| record deleted                       | nothing is left of the claim                            |
"""

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from dradriver.driver.base import Driver
from dradriver.driver.claim import Claim
from dradriver.errors import DraError, InvalidObjectError
from dradriver.node.claims.context import ClaimContext
from dradriver.node.claims.lookup import to_driver_claim
from dradriver.node.claims.operations import OperationProgress, format_devices
from dradriver.node.crash_points import CrashPoint
from dradriver.node.reporting.redaction import redact_error
from dradriver.node.state.claim_states import ClaimEvent
from dradriver.node.state.records import ClaimRecord, ClaimRef
from dradriver.node.state.rows import Rows

__all__ = ["forget", "revert_prepare", "unprepare"]


async def unprepare(
    context: ClaimContext,
    ref: ClaimRef,
    seconds: float | None = None,
    *,
    unless: Callable[[], Awaitable[bool]] | None = None,
    rebuilding: bool = False,
) -> None:
    """Revert the prepare of a claim; if it has no record, the driver gets only its UID and name.

    Args:
        context: the parts of the node.
        ref: the claim. It need not exist any more.
        seconds: maximum time to wait. None: `context.deadline`.
        unless: called under the claim's lock. If it returns True, the claim stays as it is.
        rebuilding: True if the caller rebuilds the state. The call then does not wait for a complete state.

    Raises:
        InProgressError: the unprepare takes longer than `seconds`, and continues. The caller must retry.
        DraError: an error of the driver or the disk.
    """
    seconds = seconds or context.deadline
    if not rebuilding:
        seconds = await context.wait_for_complete_state("unprepare", ref, seconds)
    # A call without a condition must not join an operation that may skip the claim.
    subject = None if unless is None else "if it is gone"
    await context.operations.run("unprepare", ref, subject, partial(_run, context, ref, unless), seconds)


async def _run(
    context: ClaimContext,
    ref: ClaimRef,
    unless: Callable[[], Awaitable[bool]] | None,
    progress: OperationProgress,
) -> None:
    progress.enter("waiting for the claim's lock")
    async with context.stores.locks.hold(ref.uid):
        if unless is not None and await unless():
            return
        progress.enter("recording the claim")
        record = await context.stores.state.write(partial(_begin, ref))
        if record is not None:
            context.observe(CrashPoint.UNPREPARE_RECORDED, ref.uid)
        unknown = ClaimRecord(uid=ref.uid, namespace=ref.namespace, name=ref.name)
        await revert_prepare(context, record or unknown, progress)


async def revert_prepare(context: ClaimContext, record: ClaimRecord, progress: OperationProgress) -> None:
    """Unprepare a claim that is recorded as unpreparing or not recorded; the caller must hold the claim's lock.

    Raises:
        DraError: an error of the driver or the disk. The claim stays recorded as unpreparing.
    """
    driver = context.driver
    progress.enter(f"driver.unprepare of {format_devices(record)}")
    claim = _lenient_claim(context, record)
    try:
        if getattr(driver.unprepare, "__func__", None) is not Driver.unprepare:  # the default does nothing
            await context.calls.call(driver.unprepare, claim, about=f" of claim {record.ref}")
    except DraError as error:
        redact_error(error, record)
        raise
    context.observe(CrashPoint.UNPREPARE_DRIVER_DONE, record.uid)
    progress.enter("removing the CDI spec and recording the claim")
    await context.stores.state.write(
        partial(_finish, record), first=partial(context.stores.files.remove, record.ref)
    )
    context.observe(CrashPoint.UNPREPARE_FINISHED, record.uid)


async def forget(context: ClaimContext, ref: ClaimRef) -> None:
    """Remove the record and the files of a claim whose devices belong to another claim now.

    The driver is not called, because its `unprepare` would release the devices of the other claim. If the
    process dies in between, the record is left, and the next rebuild deletes it.

    Raises:
        StateError: the record or the files cannot be removed.
    """

    def work(rows: Rows) -> None:
        if (record := _begin(ref, rows)) is not None:
            _finish(record, rows)

    async with context.stores.locks.hold(ref.uid):
        await context.stores.state.write(work, first=partial(context.stores.files.remove, ref))


def _lenient_claim(context: ClaimContext, record: ClaimRecord) -> Claim:
    """Return the claim for the driver, without configuration if this version cannot decode it."""
    try:
        return to_driver_claim(record, context.driver, context.inventory, strict=False)
    except InvalidObjectError:
        # A device must be released even if this version of the driver does not know its configuration.
        bare = [msgspec.structs.replace(device, parameters=[]) for device in record.devices]
        record = msgspec.structs.replace(record, devices=bare)
        return to_driver_claim(record, context.driver, context.inventory, strict=False)


def _begin(ref: ClaimRef, rows: Rows) -> ClaimRecord | None:
    row = rows.get(ref.uid)
    return None if row is None else rows.move(row.record, ClaimEvent.BEGIN_UNPREPARE).record


def _finish(record: ClaimRecord, rows: Rows) -> None:
    if rows.get(record.uid) is not None:
        rows.move(record, ClaimEvent.FINISH_UNPREPARE)
