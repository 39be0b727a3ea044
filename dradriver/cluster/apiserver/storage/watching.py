"""Watches: the changes since a revision, then every new change, with bookmarks, until the time is up."""

import asyncio
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.formats.values import encode
from dradriver.cluster.apiserver.requests.encoding import Encoder
from dradriver.cluster.apiserver.requests.parse import ApiRequest
from dradriver.cluster.apiserver.requests.reads import lines, revision_of, selection
from dradriver.cluster.apiserver.requests.selectors import Selection
from dradriver.cluster.apiserver.status import About, Cause, StatusError, expired, invalid
from dradriver.cluster.apiserver.storage.store import StoredChange

_LONGEST = 3600.0
_SHORTEST_DEFAULT = 1800.0
# A client that does not read is disconnected. It returns with the last revision that it saw.
_TOO_FAR_BEHIND = 20_000


@dataclass(frozen=True, slots=True)
class Watch:
    """The options of a watch.

    Attributes:
        revision: send changes after this one; 0 sends the current state first.
        initial: send the current state first, then a bookmark that marks its end.
        bookmarks: send bookmarks.
        seconds: the duration.
    """

    selection: Selection
    revision: int
    initial: bool
    bookmarks: bool
    seconds: float


def watch_of(request: ApiRequest) -> Watch:
    """Read the options of a watch.

    Raises:
        StatusError: 400 or 422 for options that do not fit together.
    """
    initial, bookmarks = request.flag("sendInitialEvents"), request.flag("allowWatchBookmarks")
    if request.query.get("sendInitialEvents") and request.query.get("resourceVersionMatch") != "NotOlderThan":
        message = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid(
            About("meta.k8s.io", "ListOptions"), [Cause("FieldValueForbidden", message, "resourceVersionMatch")]
        )
    seconds = float(request.number("timeoutSeconds"))
    # Spread the ends, so that many clients do not return at once. The number is not a secret.
    seconds = min(seconds, _LONGEST) or random.uniform(_SHORTEST_DEFAULT, _LONGEST)  # noqa: S311
    wanted = selection(request)
    return Watch(wanted, revision_of(request), initial, bookmarks, seconds)


async def stream(
    server: ServerParts, request: ApiRequest, watch: Watch, writer: Encoder, bookmark_seconds: float
) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a watch.

    Ends when its time is up, or with an ERROR line when the requested changes are no longer kept.
    """
    store, storage = server.store, request.target.resource.storage
    queue: asyncio.Queue[StoredChange] = asyncio.Queue()
    # Nothing else runs from here to the first yield, so there is no gap between the state and later changes.
    stop = store.listen(queue.put_nowait, storage)
    try:
        if watch.initial or watch.revision == 0:
            backlog = [
                writer.event("ADDED", each)
                for each in store.all(storage)
                if watch.selection.matches(each.object)
            ]
            if watch.initial and watch.bookmarks:
                backlog.append(writer.bookmark(store.revision, initial_end=True))
        else:
            try:
                past = store.since(storage, watch.revision)
            except StatusError as error:
                yield error_line(error)
                return
            backlog = [line for change in past for line in lines(change, watch.selection, writer)]
        for line in backlog:
            yield line
        async for line in _follow(server, queue, watch, writer, bookmark_seconds):
            yield line
    finally:
        stop()


async def _follow(
    server: ServerParts,
    queue: asyncio.Queue[StoredChange],
    watch: Watch,
    writer: Encoder,
    bookmark_seconds: float,
) -> AsyncGenerator[bytes, None]:
    loop = asyncio.get_running_loop()
    end = loop.time() + watch.seconds
    next_bookmark = loop.time() + bookmark_seconds if watch.bookmarks else end
    while (now := loop.time()) < end and queue.qsize() < _TOO_FAR_BEHIND:
        try:
            async with asyncio.timeout(min(end, next_bookmark) - now):
                change = await queue.get()
        except TimeoutError:
            # A change may have arrived at the same time. A bookmark before it would mean that it was sent.
            if watch.bookmarks and queue.empty():
                yield writer.bookmark(server.store.revision, initial_end=False)
                next_bookmark = loop.time() + bookmark_seconds
            continue
        if change.revision > watch.revision:
            for line in lines(change, watch.selection, writer):
                yield line


def error_line(error: StatusError) -> bytes:
    """Return the last line of a watch that can't continue."""
    return encode({"type": "ERROR", "object": error.body()}) + b"\n"


def gone() -> bytes:
    """Return the last line of a watch that a test ends with 410."""
    return error_line(expired("The resourceVersion for the provided watch is too old."))
