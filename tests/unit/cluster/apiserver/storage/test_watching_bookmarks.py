"""A bookmark says that everything up to its revision was sent: a client that comes back wants what is later."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from dradriver.cluster.apiserver.storage import watching


async def sent(
    monkeypatch: pytest.MonkeyPatch, seconds: float, bookmark_seconds: float
) -> list[tuple[str, int]]:
    """What a watch sends when a change comes in the moment in which its wait is over."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Any] = asyncio.Queue()
    store = SimpleNamespace(revision=1)
    writer = SimpleNamespace(bookmark=lambda revision, **_: ("bookmark", revision))
    monkeypatch.setattr(watching, "lines", lambda change, *_: [("change", change.revision)])
    watch = SimpleNamespace(bookmarks=True, revision=1, seconds=seconds, selection=None)
    due = loop.time() + min(seconds, bookmark_seconds)

    def change() -> None:
        store.revision = 3  # of which 2 is this change, and 3 one of another kind
        queue.put_nowait(SimpleNamespace(revision=2))

    loop.call_at(due - 0.01, time.sleep, 0.05)  # both timers are over in the same turn of the loop,
    loop.call_at(due + 0.01, change)  # and that of the wait comes first
    found: list[Any] = []
    async with asyncio.timeout(5):
        follow: Any = watching._follow
        async for line in follow(SimpleNamespace(store=store), queue, watch, writer, bookmark_seconds):
            found.append(line)
            if len(found) == 2:
                break
    return found


async def test_in_the_middle_of_a_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await sent(monkeypatch, 60, 0.1) == [("change", 2), ("bookmark", 3)]


async def test_at_the_end_of_a_watch_a_change_that_is_not_sent_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert ("bookmark", 3) not in await sent(monkeypatch, 0.1, 60)
