"""Executes the steps of the table in `steps` until no step is left."""

import asyncio
import logging
from typing import Final

import msgspec

import dradriver as dra
from dradriver_gpu_mig.files import BusyError
from dradriver_gpu_mig.mps.daemon import DaemonState, MpsDaemon
from dradriver_gpu_mig.mps.daemon_store import MpsDaemonStore
from dradriver_gpu_mig.mps.host import MpsFolders, MpsHost
from dradriver_gpu_mig.mps.steps import RECORD_STEPS, DaemonStep, DesiredDaemon, ObservedDaemon, next_step

__all__ = ["MpsDaemons"]

_log: Final = logging.getLogger(__name__)

_MAX_STEPS: Final = 16
"""Steps after which a daemon counts as one that ends again and again. The table needs about half as many."""


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
        desired = msgspec.structs.replace(desired, state=DaemonState.STARTING, was_ready=False)
        async with self._store.lock(desired.claim):
            stored = await asyncio.to_thread(self._store.get, desired.claim)
            if stored is not None and not stored.has_settings_of(desired):
                await self._converge(DesiredDaemon.ABSENT, stored)
                stored = None
            try:
                await self._converge(DesiredDaemon.PRESENT, desired)
            except dra.DraError:
                if stored is None or not stored.was_ready:
                    await self._roll_back(desired)
                raise

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

    async def recover(self) -> list[str]:
        """Restart daemons that ended or hang, and complete stops that another process left incomplete.

        A daemon that another process works on is skipped. A daemon that was never ready is left to the next
        call of the kubelet.

        Returns:
            The UIDs of the claims whose daemons were restarted. The CUDA contexts of their containers are lost.
        """
        restarted = []
        for claim in sorted(await asyncio.to_thread(lambda: self._store.claims() | self._store.locked())):
            try:
                async with self._store.lock(claim, wait=False):
                    if await self._recover(claim):
                        restarted.append(claim)
            except BusyError:
                continue
            except dra.DraError as error:
                _log.warning("the MPS daemon of claim %s cannot be recovered now: %s", claim, error)
        return restarted

    def claims(self) -> set[str]:
        """Return the UIDs of the claims that have a daemon, or remains of one. Blocking."""
        return self._store.claims()

    async def _recover(self, claim: str) -> bool:
        """Recover one daemon, and return whether it was restarted."""
        stored = await asyncio.to_thread(self._store.get, claim)
        if stored is None or stored.state is DaemonState.STOPPING:
            await self._remove(claim)
            return False
        if stored.state is DaemonState.STARTING and not stored.was_ready:
            return False
        observed = await asyncio.to_thread(self._host.observe, claim)
        if observed is ObservedDaemon.RUNNING:  # a node under load gets a second chance
            observed = await asyncio.to_thread(self._host.observe, claim)
        if stored.state is DaemonState.READY and observed is ObservedDaemon.ANSWERING:
            return False
        _log.warning(
            "the MPS daemon of claim %s does not answer (%s): it is restarted, and the CUDA contexts of the "
            "claim's containers are lost",
            claim,
            observed.name.lower(),
        )
        await self._converge(DesiredDaemon.PRESENT, stored)
        return True

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
        observed = await asyncio.to_thread(self._host.observe, record.claim)
        for _ in range(_MAX_STEPS):
            stored = await asyncio.to_thread(self._store.get, record.claim)
            step = next_step(goal, stored.state if stored else None, observed)
            if step is DaemonStep.DONE:
                return
            _log.debug("MPS daemon of claim %s: %s", record.claim, step.value)
            await self._execute(step, stored or record)
            if step not in RECORD_STEPS:
                observed = await asyncio.to_thread(self._host.observe, record.claim)
        raise dra.DraError(
            f"MPS daemon of claim {record.claim}: its state still changes after {_MAX_STEPS} steps"
        )

    async def _execute(self, step: DaemonStep, record: MpsDaemon) -> None:
        claim = record.claim
        match step:
            case DaemonStep.RECORD_STARTING:
                await self._write(record, DaemonState.STARTING)
            case DaemonStep.RECORD_STOPPING:
                await self._write(record, DaemonState.STOPPING)
            case DaemonStep.MOUNT:
                await asyncio.to_thread(self._host.mount, claim)
            case DaemonStep.START:
                await asyncio.to_thread(self._host.start, record)
            case DaemonStep.FINISH:
                await asyncio.to_thread(self._host.configure, record)
                await self._write(record, DaemonState.READY)
            case DaemonStep.STOP:
                await asyncio.to_thread(self._host.stop, claim)
            case DaemonStep.KILL:
                await asyncio.to_thread(self._host.kill, claim)
            case DaemonStep.UNMOUNT:
                await asyncio.to_thread(self._host.unmount, claim)
            case _:
                await self._delete(claim)

    async def _delete(self, claim: str) -> None:
        await asyncio.to_thread(self._host.remove, claim)
        await asyncio.to_thread(self._store.delete, claim)

    async def _write(self, record: MpsDaemon, state: DaemonState) -> None:
        was_ready = record.was_ready or DaemonState.READY in {record.state, state}
        updated = msgspec.structs.replace(record, state=state, was_ready=was_ready)
        await asyncio.to_thread(self._store.put, updated)
