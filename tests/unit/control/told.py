"""What controllers say in events."""

from contextlib import aclosing

from dradriver.kube import EVENTS, Cache, Client
from dradriver.model.core.meta import ObjectMeta, ObjectReference
from dradriver.model.encoding.codec import Value

__all__ = ["Event", "told"]


class Event(Value, frozen=True):
    """`v1` Event."""

    metadata: ObjectMeta
    reason: str
    message: str
    type: str
    source: dict[str, str]
    involved_object: ObjectReference


async def told(client: Client, words: str) -> Event:
    """An event whose message has these words, as soon as there is one."""
    async with Cache(client, EVENTS, Event) as events, aclosing(events.changes()) as changes:
        while True:
            for event in events.items.values():
                if words in event.message:
                    return event
            await anext(changes)
