"""Events are kept for an hour, as the real server keeps them."""

import asyncio
from datetime import timedelta

from dradriver.cluster.apiserver.backend import Server
from dradriver.cluster.apiserver.resources import EVENTS
from dradriver.cluster.apiserver.schema.decode import parse_time

_LIFETIME = timedelta(hours=1)
_PERIOD = 60.0


class EventExpiry:
    """Removes events that have not changed for an hour."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            self.expire()
            await asyncio.sleep(_PERIOD)

    def expire(self) -> None:
        """Remove what has expired by now."""
        oldest = self._server.now() - _LIFETIME
        for stored in self._server.store.all(EVENTS):
            obj = stored.object
            seen = obj.get("lastTimestamp") or obj.get("eventTime") or obj["metadata"]["creationTimestamp"]
            if parse_time(seen) < oldest and parse_time(obj["metadata"]["creationTimestamp"]) < oldest:
                self._server.store.delete(stored)
