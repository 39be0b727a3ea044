"""Wait for events."""

from contextlib import aclosing

from dradriver.kube import EVENTS, Cache, Client
from dradriver.model.core.meta import ObjectMeta, ObjectReference
from dradriver.model.encoding.codec import Value

__all__ = ["Event", "wait_for_event"]


class Event(Value, frozen=True):
    """`v1` Event."""

    metadata: ObjectMeta
    reason: str
    message: str
    type: str
    source: dict[str, str]
    involved_object: ObjectReference
    count: int = 1


async def wait_for_event(client: Client, text: str) -> Event:
    """Wait for an event whose message contains the text, and return it."""
    async with Cache(client, EVENTS, Event) as events, aclosing(events.changes()) as changes:
        while True:
            for event in events.items.values():
                if text in event.message:
                    return event
            await anext(changes)
