"""Executes the steps of the table in `steps` until no step is left."""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, TypeVar

import msgspec

import dradriver as dra
from dradriver_gpu_mig.files import BusyError
from dradriver_gpu_mig.mps.daemon import DaemonState, MpsDaemon, name_daemon
from dradriver_gpu_mig.mps.daemon_store import MpsDaemonStore
from dradriver_gpu_mig.mps.host import MpsFolders, MpsHost
from dradriver_gpu_mig.mps.steps import RECORD_STEPS, DaemonStep, DesiredDaemon, ObservedDaemon, next_step

__all__ = ["MpsDaemons"]

_log: Final = logging.getLogger(__name__)

_MAX_STEPS: Final = 16
"""Steps after which a daemon counts as one that ends again and again. The table needs about half as many."""


_FIRST_PAUSE: Final = 30.0
_LONGEST_PAUSE: Final = 600.0
"""Seconds between two attempts to recover a daemon: the first pause, and the longest."""

_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")


class _Failures(NamedTuple):
    """Failed attempts to recover a daemon.

    Attributes:
        number: number of attempts in a row.
        until: time of the event loop before which there is no further attempt.
    """

    number: int
    until: float


class MpsDaemons:
    """Starts and stops the MPS daemons of claims.

    Args:
        store: the records.
        host: the processes of the node.
        folders: folders of the claims, for the container edits.
    """

    def __init__(self, store: MpsDaemonStore, host: MpsHost, folders: MpsFolders) -> None:
        self._store = store
        self._host = host
        self.folders = folders
        self._failures: dict[str, _Failures] = {}

    async def check(self, claim: str) -> None:
        """Check that the node can have the daemon of a claim. Nothing is changed.

        Args:
            claim: UID of the claim, for errors.

        Raises:
            DraError: the node lacks something. The message names it.
        """
        await self._call(claim, self._host.check, claim)

    async def start(self, desired: MpsDaemon) -> None:
        """Start a claim's daemon, unless it answers already. Repeating the call is a no-op.

        A daemon with other settings is stopped first. If the daemon cannot be started, nothing of it is left
        when the error is raised, unless it was ready before: the claim's containers may have its folders, and
        `recover` tries again. If the process dies, the next call continues from the record.

        Args:
            desired: the settings of the daemon. Its progress is ignored.

        Raises:
            DraError: the daemon does not start or rejects a limit, or the node rejects a change.
        """
        claim = desired.claim
        desired = msgspec.structs.replace(desired, state=DaemonState.STARTING, was_ready=False)
        async with self._store.lock(claim):
            stored = await asyncio.to_thread(self._store.get, claim)
            if stored is not None and (
                stored.state is DaemonState.STOPPING or not stored.has_settings_of(desired)
            ):
                await self._converge(DesiredDaemon.ABSENT, stored)
                stored = None
            try:
                await self._converge(DesiredDaemon.PRESENT, desired)
            except dra.DraError:
                if stored is None or not stored.was_ready:
                    await self._roll_back(desired)
                raise
        self._failures.pop(claim, None)

    async def stop(self, claim: str) -> None:
        """Stop a claim's daemon and remove all that belongs to it. Repeating the call is a no-op.

        Args:
            claim: UID of the claim.

        Raises:
            DraError: a process of the daemon does not end, or the node rejects a change. The record stays, and
                a later call must stop the daemon.
        """
        async with self._store.lock(claim):
            await self._remove(claim)

    async def recover(self, with_devices: Collection[str]) -> list[str]:
        """Restart daemons that ended or hang, and complete stops that another process left incomplete.

        All daemons are recovered concurrently. One that another process works on is skipped, and so is one
        that was never ready, which the next call of the kubelet starts. After a failure, the daemon is tried
        again after 30 s, and later after up to 10 minutes.

        Args:
            with_devices: UIDs of the claims that have devices. The daemon of another claim is not restarted:
                after a reboot, its devices may not exist yet.

        Returns:
            The UIDs of the claims whose daemons were restarted. The CUDA contexts of their containers are lost.
        """
        known = await asyncio.to_thread(lambda: self._store.claims() | self._store.locked())
        now = asyncio.get_running_loop().time()
        self._failures = {claim: each for claim, each in self._failures.items() if claim in known}
        waiting = {claim for claim, each in self._failures.items() if each.until > now}
        due = sorted(known - waiting)
        attempts = (self._try_recover(claim, has_devices=claim in with_devices) for claim in due)
        restarted = await asyncio.gather(*attempts)
        return [claim for claim, is_restarted in zip(due, restarted, strict=True) if is_restarted]

    async def _try_recover(self, claim: str, *, has_devices: bool) -> bool:
        try:
            async with self._store.lock(claim, wait=False):
                is_restarted = await self._recover(claim, has_devices=has_devices)
        except BusyError:
            return False
        except dra.DraError as error:
            failures = self._failures[claim].number + 1 if claim in self._failures else 1
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (failures - 1))
            self._failures[claim] = _Failures(failures, asyncio.get_running_loop().time() + pause)
            _log.warning(
                "the MPS daemon of claim %s cannot be recovered now, the next attempt is in %.0f s: %s",
                claim,
                pause,
                error,
            )
            return False
        self._failures.pop(claim, None)
        return is_restarted

    def claims(self) -> set[str]:
        """Return the UIDs of the claims that have a daemon, or remains of one. Blocking."""
        return self._store.claims()

    async def _recover(self, claim: str, *, has_devices: bool) -> bool:
        """Recover one daemon, and return whether it was restarted."""
        stored = await asyncio.to_thread(self._store.get, claim)
        if stored is None or stored.state is DaemonState.STOPPING:
            await self._remove(claim)
            return False
        if not has_devices or (stored.state is DaemonState.STARTING and not stored.was_ready):
            return False
        observed = await self._observe(claim)
        if observed is ObservedDaemon.RUNNING:  # a node under load gets a second chance
            observed = await self._observe(claim)
        is_answering = observed is ObservedDaemon.ANSWERING
        if stored.state is DaemonState.READY and is_answering:
            return False
        if not is_answering:
            _log.warning(
                "the MPS daemon of claim %s does not answer (%s): it is restarted, and the CUDA contexts of "
                "the claim's containers are lost",
                claim,
                observed.name.lower(),
            )
        await self._converge(DesiredDaemon.PRESENT, stored)
        return not is_answering

    async def _remove(self, claim: str) -> None:
        await self._converge(DesiredDaemon.ABSENT, MpsDaemon(claim=claim, devices=()))
        # A process may have died between the removals of DELETE, or before it wrote the record.
        if claim in await asyncio.to_thread(self._store.claims):
            await self._delete(claim)
        await asyncio.to_thread(self._store.remove_lock, claim)

    async def _roll_back(self, desired: MpsDaemon) -> None:
        try:
            await self._remove(desired.claim)
        except dra.DraError as error:
            _log.warning(
                "the MPS daemon of claim %s cannot be removed now, its next prepare or unprepare will try "
                "again: %s",
                desired.claim,
                error,
            )

    async def _converge(self, goal: DesiredDaemon, record: MpsDaemon) -> None:
        observed = await self._observe(record.claim)
        for _ in range(_MAX_STEPS):
            stored = await asyncio.to_thread(self._store.get, record.claim)
            step = next_step(goal, stored.state if stored else None, observed)
            if step is DaemonStep.DONE:
                return
            _log.debug("MPS daemon of claim %s: %s", record.claim, step.value)
            await self._execute(step, stored or record)
            if step not in RECORD_STEPS:
                observed = await self._observe(record.claim)
        raise dra.DraError(f"{name_daemon(record.claim)}: its state still changes after {_MAX_STEPS} steps")

    async def _execute(self, step: DaemonStep, record: MpsDaemon) -> None:
        claim = record.claim
        match step:
            case DaemonStep.RECORD_STARTING:
                await self._write(record, DaemonState.STARTING)
            case DaemonStep.RECORD_STOPPING:
                await self._write(record, DaemonState.STOPPING)
            case DaemonStep.MOUNT:
                await self._call(claim, self._host.mount, claim)
            case DaemonStep.START:
                await self._call(claim, self._host.start, record)
            case DaemonStep.FINISH:
                await self._finish(record)
            case DaemonStep.STOP:
                await self._call(claim, self._host.stop, claim)
            case DaemonStep.KILL:
                await self._call(claim, self._host.kill, claim)
            case DaemonStep.UNMOUNT:
                await self._call(claim, self._host.unmount, claim)
            case _:
                await self._delete(claim)

    async def _finish(self, record: MpsDaemon) -> None:
        """Send the limits, and record that the daemon is ready. A daemon without its limits is killed."""
        try:
            await self._call(record.claim, self._host.configure, record)
        except dra.DraError:
            await self._call(record.claim, self._host.kill, record.claim)
            raise
        await self._write(record, DaemonState.READY)

    async def _observe(self, claim: str) -> ObservedDaemon:
        return await self._call(claim, self._host.observe, claim)

    async def _call(self, claim: str, action: Callable[[_Argument], _Result], argument: _Argument) -> _Result:
        """Execute a blocking call on a thread.

        If this task is canceled, it waits until the call ends, because others may work on the daemon as soon as
        its lock is released.

        Raises:
            DraError: the call failed.
        """
        call = asyncio.create_task(asyncio.to_thread(action, argument))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            await asyncio.gather(call, return_exceptions=True)
            raise
        except OSError as error:
            raise dra.DraError(f"{name_daemon(claim)}: {error}") from error

    async def _delete(self, claim: str) -> None:
        await self._call(claim, self._host.remove, claim)
        await asyncio.to_thread(self._store.delete, claim)

    async def _write(self, record: MpsDaemon, state: DaemonState) -> None:
        was_ready = record.was_ready or DaemonState.READY in {record.state, state}
        updated = msgspec.structs.replace(record, state=state, was_ready=was_ready)
        await asyncio.to_thread(self._store.put, updated)
