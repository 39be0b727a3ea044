"""The base class of controllers of the server that react to the stored state, not to events."""

import asyncio

from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.storage.store import StoredChange

__all__ = ["StateController"]


class StateController:
    """Runs a pass over the state at the start and after each relevant change.

    A pass finds the remaining work in the stored state, so a crash loses no work.
    """

    def __init__(self, server: ServerParts) -> None:
        self._server = server
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Run until cancelled."""
        stop = self._server.store.listen(self._on_change)
        try:
            while True:
                self._wake.clear()
                self._reconcile()
                await self._wake.wait()
        finally:
            stop()

    def _on_change(self, change: StoredChange) -> None:
        if self._is_relevant(change):
            self._wake.set()

    def _is_relevant(self, change: StoredChange) -> bool:
        """Return whether a pass may have work after this change."""
        raise NotImplementedError

    def _reconcile(self) -> None:
        """Do all work that the state requires."""
        raise NotImplementedError
