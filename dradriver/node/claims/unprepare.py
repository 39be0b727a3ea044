"""Unprepare: takes back what was prepared for a claim, under the claim's lock.

| side effect                             | killed right after it                          |
|-----------------------------------------|------------------------------------------------|
| recorded as unpreparing                 | next unprepare or collection goes on from here |
| `driver.unprepare`                      | the same                                       |
| CDI spec and device metadata removed    | the same                                       |
| record deleted                          | nothing is left                                |
"""

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from dradriver.driver.base import Driver
from dradriver.driver.claim import Claim
from dradriver.errors import DraError, InvalidObjectError
from dradriver.node.claims.context import ClaimContext
from dradriver.node.claims.lookup import driver_claim
from dradriver.node.claims.operations import OperationProgress, device_names
from dradriver.node.crash_points import CrashPoint
from dradriver.node.reporting.redaction import redacted
from dradriver.node.state.claim_states import ClaimEvent
from dradriver.node.state.records import ClaimRecord, ClaimRef
from dradriver.node.state.rows import Rows

__all__ = ["forget", "take_back", "unprepare"]


async def unprepare(
    context: ClaimContext,
    ref: ClaimRef,
    seconds: float | None = None,
    *,
    unless: Callable[[], Awaitable[bool]] | None = None,
    rebuilding: bool = False,
) -> None:
    """Takes back what was prepared for the claim; for an unknown claim, whatever the driver finds.

    Args:
        context: the parts of the node.
        ref: the claim, which need not exist any more.
        seconds: how long to wait; None: `context.deadline`.
        unless: is called under the claim's lock; True leaves the claim alone.
        rebuilding: the caller is about to make the state complete, so the call does not wait for that.

    Raises:
        InProgressError: it takes longer; call again.
        DraError: what is wrong with the driver or the disk.
    """
    seconds = seconds or context.deadline
    if not rebuilding:
        seconds = await context.until_state_complete("unprepare", ref, seconds)
    # A call without a condition must not join work that may leave the claim alone.
    subject = None if unless is None else "if it is gone"
    await context.operations.run("unprepare", ref, subject, partial(_run, context, ref, unless), seconds)


async def _run(
    context: ClaimContext,
    ref: ClaimRef,
    unless: Callable[[], Awaitable[bool]] | None,
    progress: OperationProgress,
) -> None:
    progress.at("waiting for the claim's lock")
    async with context.stores.locks.hold(ref.uid):
        if unless is not None and await unless():
            return
        progress.at("recording the claim")
        record = await context.stores.state.write(partial(_begin, ref))
        if record is not None:
            context.observe(CrashPoint.UNPREPARE_RECORDED, ref.uid)
        unknown = ClaimRecord(uid=ref.uid, namespace=ref.namespace, name=ref.name)
        await take_back(context, record or unknown, progress)


async def take_back(context: ClaimContext, record: ClaimRecord, progress: OperationProgress) -> None:
    """Ends a claim that is recorded as unpreparing, or not recorded; the caller has the claim's lock.

    Raises:
        DraError: what is wrong with the driver or the disk; the claim stays recorded as unpreparing.
    """
    driver = context.driver
    progress.at(f"driver.unprepare of {device_names(record)}")
    claim = _lenient_claim(context, record)
    try:
        if getattr(driver.unprepare, "__func__", None) is not Driver.unprepare:  # which does nothing
            await context.calls.call(driver.unprepare, claim, about=f" of claim {record.ref}")
    except DraError as error:
        redacted(error, record)
        raise
    context.observe(CrashPoint.UNPREPARE_DRIVER_DONE, record.uid)
    progress.at("removing the CDI spec and recording the claim")
    await context.stores.state.write(
        partial(_finish, record), first=partial(context.stores.files.remove, record.ref)
    )
    context.observe(CrashPoint.UNPREPARE_FINISHED, record.uid)


async def forget(context: ClaimContext, ref: ClaimRef) -> None:
    """Removes the record and the files of a claim whose devices belong to another one now.

    The driver is not called: it would take the devices from the other claim. A process that is killed in
    between leaves a record, which the next rebuilding forgets.

    Raises:
        StateError: they can't be removed.
    """

    def work(rows: Rows) -> None:
        if (record := _begin(ref, rows)) is not None:
            _finish(record, rows)

    async with context.stores.locks.hold(ref.uid):
        await context.stores.state.write(work, first=partial(context.stores.files.remove, ref))


def _lenient_claim(context: ClaimContext, record: ClaimRecord) -> Claim:
    """What the driver gets, without any configuration if another version of the driver has stored it."""
    try:
        return driver_claim(record, context.driver, context.inventory, strict=False)
    except InvalidObjectError:
        # Giving a device back must not depend on a configuration that this version does not know.
        bare = [msgspec.structs.replace(device, parameters=[]) for device in record.devices]
        record = msgspec.structs.replace(record, devices=bare)
        return driver_claim(record, context.driver, context.inventory, strict=False)


def _begin(ref: ClaimRef, rows: Rows) -> ClaimRecord | None:
    row = rows.get(ref.uid)
    return None if row is None else rows.move(row.record, ClaimEvent.BEGIN_UNPREPARE).record


def _finish(record: ClaimRecord, rows: Rows) -> None:
    if rows.get(record.uid) is not None:
        rows.move(record, ClaimEvent.FINISH_UNPREPARE)
