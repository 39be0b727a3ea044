"""Updates the `status` of quotas."""

import asyncio

from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.formats.quantity import printed
from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.kinds.resources import CLAIMS, CLASSES, PODS, QUOTAS
from dradriver.cluster.apiserver.quota.namespace import used_in
from dradriver.cluster.apiserver.requests.writes import system_update
from dradriver.cluster.apiserver.storage.store import Stored, StoredChange

__all__ = ["QuotaController"]

_CONCERNED = {PODS, CLAIMS, CLASSES, QUOTAS}


class QuotaController:
    """Writes the usage of each quota into its status.

    It works on the state, not on events: a pass finds outdated statuses, so a crash loses nothing.
    """

    def __init__(self, server: ServerParts) -> None:
        self._server = server
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled."""
        stop = self._server.store.listen(self._notice)
        try:
            while True:
                self._wake.clear()
                for quota in self._server.store.all(QUOTAS):
                    self._update(quota)
                await self._wake.wait()
        finally:
            stop()

    def _notice(self, change: StoredChange) -> None:
        if change.last.storage in _CONCERNED:
            self._wake.set()

    def _update(self, quota: Stored) -> None:
        hard = dig(quota.object, "spec", "hard") or {}
        used = used_in(self._server, quota.key[0], hard)

        def change(obj: Object) -> None:
            said = {name: printed(used[name], hard[name]) for name in sorted(used)}
            obj["status"] = {"hard": dict(hard), "used": said}

        system_update(self._server, quota, change)
