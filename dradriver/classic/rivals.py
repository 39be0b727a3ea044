"""Take over the claims of a process of the same controller with another Lease, once that process has ended.

Two processes of one controller with Leases in different namespaces do not know of each other. Each record names
the Lease of the process that wrote it. While that Lease is held, its claims are left alone, and an Event
reports it. If the Lease is gone, released or not renewed in time, the record gets the Lease of this process. If
the process dies after this write, the next one continues with the record.
"""

import asyncio
import logging
from typing import Final

from dradriver.classic.state import ControllerState
from dradriver.kube import (
    CONTROLLER_ALLOCATIONS,
    LEASES,
    Client,
    Conflict,
    Forbidden,
    NotFound,
    PatchKind,
)
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.classic.names import LEASE_ANNOTATION
from dradriver.model.core.lease import Lease

__all__ = ["Rivals"]

_log = logging.getLogger(__name__)

_CHECK_SECONDS: Final = 15.0
"""Seconds until the Lease of a rival is read again, if it does not say for how long it is valid."""


class Rivals:
    """Reads the Leases of rivals, and takes over the records of those that have ended.

    Args:
        client: the API server. It needs `get` on the Leases of rivals, and `patch` on records.
        state: the state of the process.
    """

    def __init__(self, client: Client, state: ControllerState) -> None:
        self._client = client
        self._state = state
        self._seen: dict[str, tuple[str | None, float]] = {}

    async def take_over(self, record: ControllerAllocation) -> float:
        """Take over a record if the process that wrote it has ended.

        Returns:
            0 if the record was taken over or has changed; otherwise the seconds until the next check.

        Raises:
            ApiError: the Lease cannot be read, or the record cannot be written.
        """
        name = record.metadata.annotations.get(LEASE_ANNOTATION, "")
        left = await self._seconds_left(name)
        if left > 0:
            return left
        meta = record.metadata
        body = {
            "metadata": {
                "resourceVersion": meta.resource_version,
                "annotations": {LEASE_ANNOTATION: self._state.lease},
            }
        }
        try:
            stored = await self._client.patch(
                *(CONTROLLER_ALLOCATIONS, meta.name, meta.namespace, body, PatchKind.MERGE),
                into=ControllerAllocation,
            )
        except (Conflict, NotFound):
            return 0.0  # the watch delivers the change
        _log.info("took over claim %s from the Lease %s", record.claim_ref, name)
        self._state.records.apply_written(stored)
        return 0.0

    async def _seconds_left(self, name: str) -> float:
        """Return for how long the Lease may still be held, by the clock of this process; 0 if it is not."""
        namespace, _, short = name.partition("/")
        try:
            lease = await self._client.get(LEASES, short, namespace, into=Lease)
        except NotFound:
            return 0.0
        except Forbidden:
            return _CHECK_SECONDS
        if not lease.spec.holder_identity:
            return 0.0
        now = asyncio.get_running_loop().time()
        renewed, seen = self._seen.get(name, (None, now))
        if renewed != lease.spec.renew_time or name not in self._seen:
            self._seen[name] = lease.spec.renew_time, now
            seen = now
        duration = float(lease.spec.lease_duration_seconds or _CHECK_SECONDS)
        return max(0.0, seen + duration - now)
