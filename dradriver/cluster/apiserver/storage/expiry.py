"""Removes old events: events are kept for an hour, as in kube-apiserver, and only up to a maximum number.

kube-apiserver does not limit the number of events. The embedded cluster limits it, because events are in the
memory of the process that also schedules.
"""

import asyncio
from datetime import datetime, timedelta

from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.kinds.resources import EVENTS
from dradriver.cluster.apiserver.schema.decode import parse_time
from dradriver.cluster.apiserver.storage.store import Stored

_LIFETIME = timedelta(hours=1)
_PERIOD = 10.0
MAX_EVENTS = 4096


class EventExpiry:
    """Removes events that have not changed for an hour, and the oldest events beyond `max_events`."""

    def __init__(self, server: ServerParts, max_events: int = MAX_EVENTS) -> None:
        self._server = server
        self._max_events = max_events

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self.expire()
            await asyncio.sleep(_PERIOD)

    def expire(self) -> None:
        """Remove the events that have expired."""
        store = self._server.store
        by_age = sorted(((_last_seen(each), each.revision, each) for each in store.all(EVENTS)), reverse=True)
        oldest = self._server.now() - _LIFETIME
        for number, (seen, _, event) in enumerate(by_age):
            if number >= self._max_events or seen < oldest:
                store.delete(event)


def _last_seen(event: Stored) -> datetime:
    obj = event.object
    created = parse_time(obj["metadata"]["creationTimestamp"])
    seen = obj.get("lastTimestamp") or obj.get("eventTime")
    return max(created, parse_time(seen)) if seen else created
