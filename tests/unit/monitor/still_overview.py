"""A `LiveOverview` whose overview a test sets, and a dashboard of it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from dradriver.errors import DraError
from dradriver.monitor import LiveOverview
from dradriver.monitor.dashboard import Dashboard, OwnRights
from dradriver.monitor.dashboard.visitors import Visitors
from dradriver.overview import Overview, OverviewUpdate


class StillObjects:
    """The cached objects of one kind, by `namespace/name`."""

    def __init__(self, *refs: str) -> None:
        self.items = dict.fromkeys(refs, object())


class StillTracker:
    def __init__(self, overview: Overview) -> None:
        self.overview = overview


class StillOverview:
    """Shows an overview until `change` sets the next one."""

    def __init__(self, overview: Overview) -> None:
        self.tracker = StillTracker(overview)
        self.claims, self.pods = StillObjects(), StillObjects()
        self.problem: DraError | None = None
        self.missing: Mapping[str, str] = {}
        self._queues: list[asyncio.Queue[OverviewUpdate | None]] = []

    async def updates(self) -> AsyncGenerator[OverviewUpdate, None]:
        queue: asyncio.Queue[OverviewUpdate | None] = asyncio.Queue()
        self._queues.append(queue)
        try:
            while (update := await queue.get()) is not None:
                yield update
        finally:
            self._queues.remove(queue)

    @property
    def readers(self) -> int:
        return len(self._queues)

    def change(self, overview: Overview, update: OverviewUpdate) -> None:
        self.tracker.overview = overview
        for queue in self._queues:
            queue.put_nowait(update)

    def end(self) -> None:
        for queue in self._queues:
            queue.put_nowait(None)


async def explain(kind: str, ref: str) -> Sequence[str]:
    return [f"{kind} {ref} waits", "  node-1: gpu-0 is held by claim secret/train"]


@asynccontextmanager
async def served(
    live: StillOverview, visitors: Visitors | None = None, host: str = "127.0.0.1", **options: Any
) -> AsyncIterator[str]:
    """Serve a dashboard; yield its address."""
    server = Dashboard(cast(LiveOverview, live), visitors or OwnRights(), explain, host=host, **options)
    await server.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        live.end()
        await server.stop()
