"""Follow the Lease of kube-scheduler, to lead exactly where it leads.

If kube-scheduler and the extender run in one pod, each kube-scheduler reaches only the extender of its own pod.
So the extender may compete for its own Lease only while the kube-scheduler of its pod is the leader. The
holder's identity in a Lease of kube-scheduler is its host name, which all containers of a pod share, `_` and a
UUID.

The Lease of kube-scheduler decides which extender should lead. It does not protect writes: the extender's own
Lease does that.

Source: `cmd/kube-scheduler/app/options/options.go` (identity), `cmd/kube-scheduler/app/server.go` (a
kube-scheduler that has lost its Lease exits).
"""

import asyncio
import logging
from typing import Final

from dradriver.errors import DraError
from dradriver.kube import LEASES, Client, NotFound
from dradriver.model.core.lease import Lease

__all__ = ["KubeSchedulerLease"]

_log = logging.getLogger(__name__)

_READ_SECONDS: Final = 5.0
"""Time limit of one read."""


class KubeSchedulerLease:
    """The Lease of the kube-scheduler beside this process.

    Args:
        client: the API server. Its user needs `get` on the Lease.
        name, namespace: name and namespace of the Lease.
        host: the host name of this process.
        period: seconds between two reads.

    Attributes:
        problem: why the last read failed; empty if it succeeded.
    """

    def __init__(self, client: Client, name: str, namespace: str, host: str, *, period: float = 1.0) -> None:
        self.problem = ""
        self._client, self._name, self._namespace = client, name, namespace
        self._host, self._period = host, period
        self._holder = ""

    def __str__(self) -> str:
        return f"lease {self._namespace}/{self._name}"

    @property
    def is_held_here(self) -> bool:
        """Return whether the kube-scheduler beside this process held the Lease at the last successful read."""
        return self._holder.rpartition("_")[0] == self._host

    @property
    def standby(self) -> str:
        """Return why this process need not lead; empty if the kube-scheduler beside it leads."""
        if self.is_held_here:
            return ""
        holder = self._holder or "no process"
        return self.problem or f"the kube-scheduler of {self._host} does not lead: {self} is held by {holder}"

    async def wait_until_held(self) -> None:
        """Wait until the kube-scheduler beside this process leads."""
        await self._follow(until_held=True)
        _log.info("%s is held by %s", self, self._holder)

    async def wait_until_lost(self) -> None:
        """Wait until another kube-scheduler leads, or none. A failed read changes nothing."""
        await self._follow(until_held=False)
        _log.info("%s is not held here any more, but by %s", self, self._holder or "no process")

    async def _follow(self, *, until_held: bool) -> None:
        while True:
            await self._read()
            if self.is_held_here == until_held:
                return
            await asyncio.sleep(self._period)

    async def _read(self) -> None:
        try:
            # On a broken connection, a request would wait for the time limit of the client, 30 s.
            async with asyncio.timeout(_READ_SECONDS):
                lease = await self._client.get(LEASES, self._name, self._namespace, into=Lease)
        except NotFound:
            self._holder, self.problem = "", ""
        except (DraError, TimeoutError) as error:
            if self.problem != (problem := f"{self}: {str(error) or 'no answer in time'}"):
                _log.warning("%s", problem)
            self.problem = problem
        else:
            self._holder, self.problem = lease.spec.holder_identity, ""
