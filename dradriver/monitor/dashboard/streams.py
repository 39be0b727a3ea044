"""Sends an overview and its changes to visitors as server-sent events.

A visitor gets the whole overview in batches, then only the nodes and pools that change. A visitor that reads
slowly gets several changes as one. A visitor that does not read at all is disconnected.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from typing import Final

from dradriver.aio.tasks import end
from dradriver.model.encoding.codec import encode
from dradriver.monitor.dashboard.page_values import lists_value, node_value, reach_value
from dradriver.monitor.dashboard.visibility import Visibility
from dradriver.monitor.live import LiveOverview
from dradriver.overview import Overview, OverviewUpdate

__all__ = ["Pace", "encode_snapshot", "encode_update", "stream_events"]

_NODES_PER_EVENT: Final = 100


@dataclass(frozen=True, slots=True)
class Pace:
    """The times of a stream, in seconds.

    Attributes:
        heartbeat: time between events if nothing changes. The page reports that it is not current if it hears
            nothing for three times as long.
        check: time after which the rights of a visitor are checked again.
        write: time that a visitor has to read an event.
    """

    heartbeat: float = 10.0
    check: float = 10.0
    write: float = 20.0


async def stream_events(
    live: LiveOverview,
    check: Callable[[], Awaitable[Visibility]],
    write: Callable[[bytes], Awaitable[None]],
    pace: Pace,
) -> None:
    """Send events until the overview ends.

    Args:
        live: the overview.
        check: returns what the visitor may see, and raises an error if the visitor may see nothing any more.
        write: sends bytes, and waits while the visitor has not read the bytes before.
        pace: the times.

    Raises:
        TimeoutError: the visitor has not read for too long.
        DraError: raised by `check`.
    """

    async def send(event: bytes) -> None:
        async with asyncio.timeout(pace.write):
            await write(event)

    visible, checked = await check(), time.monotonic()
    async with aclosing(live.updates()) as updates:
        pending = asyncio.create_task(anext(updates, None), name="dashboard update")
        try:
            await asyncio.sleep(0)  # the generator subscribes before the overview is read
            for event in encode_snapshot(live.tracker.overview, visible):
                await send(event)
            await send(_status(live))
            while True:
                await asyncio.wait({pending}, timeout=pace.heartbeat)
                if time.monotonic() - checked >= pace.check:
                    before, visible, checked = visible, await check(), time.monotonic()
                    if before != visible:
                        for event in encode_snapshot(live.tracker.overview, visible):
                            await send(event)
                if not pending.done():
                    await send(_status(live))
                    continue
                update = pending.result()
                if update is None:
                    return
                for event in encode_update(update, live.tracker.overview, visible):
                    await send(event)
                await send(_status(live))
                pending = asyncio.create_task(anext(updates, None), name="dashboard update")
        finally:
            await end([pending])


def encode_snapshot(overview: Overview, visible: Visibility) -> Iterator[bytes]:
    """Yield events that replace everything that the page shows.

    Args:
        overview: the cluster.
        visible: the visitor's rights.
    """
    reaches = [reach_value(each, visible) for each in overview.reaches]
    begin = {"nodes": len(overview.nodes), "reaches": reaches, **lists_value(overview, visible)}
    yield _event("begin", begin)
    nodes = iter(overview.nodes.values())
    while batch := [node_value(node, visible) for node in islice(nodes, _NODES_PER_EVENT)]:
        yield _event("nodes", batch)
    yield _event("complete", {})


def encode_update(update: OverviewUpdate, overview: Overview, visible: Visibility) -> Iterator[bytes]:
    """Yield events that change what the page shows.

    Args:
        update: what has changed.
        overview: the cluster after the change.
        visible: the visitor's rights.
    """
    if update.reaches:
        yield _event("reaches", [reach_value(each, visible) for each in overview.reaches])
    names = sorted(update.nodes)
    for first in range(0, len(names), _NODES_PER_EVENT):
        batch = names[first : first + _NODES_PER_EVENT]
        present = [node_value(overview.nodes[name], visible) for name in batch if name in overview.nodes]
        gone = [name for name in batch if name not in overview.nodes]
        yield _event("changed", {"nodes": present, "gone": gone})
    yield _event("lists", lists_value(overview, visible))


def _status(live: LiveOverview) -> bytes:
    problem = str(live.problem) if live.problem is not None else ""
    return _event("status", {"problem": problem, "missing": dict(live.missing)})


def _event(name: str, value: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), encode(value))
