"""A bookmark confirms all changes up to its revision: a client that reconnects asks only for later ones."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from dradriver.cluster.apiserver.storage import watching


async def collect_lines(
    monkeypatch: pytest.MonkeyPatch, seconds: float, bookmark_seconds: float
) -> list[tuple[str, int]]:
    """Return the output of a watch whose change arrives at the moment in which its wait ends."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Any] = asyncio.Queue()
    store = SimpleNamespace(revision=1)
    writer = SimpleNamespace(encode_bookmark=lambda revision, **_: ("bookmark", revision))
    watch = SimpleNamespace(bookmarks=True, revision=1, seconds=seconds, selection=None)
    now = loop.time()
    due = now + min(seconds, bookmark_seconds)

    def change() -> None:
        store.revision = 3  # 2 is this change, 3 is a change of another kind
        queue.put_nowait(SimpleNamespace(revision=2))

    def forward() -> None:
        nonlocal now
        now = due + 0.02

    found: list[Any] = []
    follow: Any = watching._follow
    with monkeypatch.context() as patch:
        patch.setattr(watching, "encode_change", lambda change, *_: [("change", change.revision)])
        # The clock stands until the watch waits. Then both timers end in the same iteration of the loop,
        patch.setattr(loop, "time", lambda: now)
        loop.call_soon(forward)
        loop.call_at(due + 0.01, change)  # and the timer of the wait comes first
        async for lines in follow(SimpleNamespace(store=store), queue, watch, writer, bookmark_seconds):
            found += lines
            if len(found) == 2:
                break
    return found


async def test_in_the_middle_of_a_watch_the_bookmark_follows_the_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await collect_lines(monkeypatch, 60, 0.1) == [("change", 2), ("bookmark", 3)]


async def test_at_the_end_of_a_watch_no_bookmark_covers_an_unsent_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert ("bookmark", 3) not in await collect_lines(monkeypatch, 0.1, 60)
