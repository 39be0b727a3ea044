"""Runs watches: sends changes since a revision, then new changes and bookmarks, until a time limit."""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.formats.values import encode
from dradriver.cluster.apiserver.requests.encoding import Encoder
from dradriver.cluster.apiserver.requests.parse import ApiRequest
from dradriver.cluster.apiserver.requests.reads import encode_change, parse_revision, parse_selection
from dradriver.cluster.apiserver.requests.selectors import Selection
from dradriver.cluster.apiserver.status import Cause, StatusError, Subject, expired, invalid
from dradriver.cluster.apiserver.storage.store import StoredChange

_MAX_SECONDS = 3600.0
_MIN_DEFAULT_SECONDS = 1800.0
# If a client does not read, it is disconnected. It can watch again from the last revision that it received.
_MAX_QUEUED_CHANGES = 20_000
_MAX_LINES = 64
"""Number of lines that are sent together. One write for several lines saves most of the cost of a line."""


@dataclass(frozen=True, slots=True)
class Watch:
    """The options of a watch.

    Attributes:
        revision: the revision after which changes are sent; 0: the current state is sent first.
        initial: whether the client requests the current state before the changes (`sendInitialEvents`), even if
            it gives a revision. If `bookmarks` is also set, a bookmark marks the end of this state.
        bookmarks: whether to send bookmarks.
        seconds: duration of the watch.
    """

    selection: Selection
    revision: int
    initial: bool
    bookmarks: bool
    seconds: float


def parse_watch(request: ApiRequest) -> Watch:
    """Read the options of a watch.

    Raises:
        StatusError: 400 or 422 if the options are invalid or contradict each other.
    """
    initial, bookmarks = request.read_flag("sendInitialEvents"), request.read_flag("allowWatchBookmarks")
    if request.query.get("sendInitialEvents") and request.query.get("resourceVersionMatch") != "NotOlderThan":
        message = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid(
            Subject("meta.k8s.io", "ListOptions"),
            [Cause("FieldValueForbidden", message, "resourceVersionMatch")],
        )
    seconds = float(request.read_number("timeoutSeconds"))
    # The random duration prevents many clients from starting a new watch at the same time. The number is not a
    # secret.
    seconds = min(seconds, _MAX_SECONDS) or random.uniform(_MIN_DEFAULT_SECONDS, _MAX_SECONDS)  # noqa: S311
    wanted = parse_selection(request)
    return Watch(wanted, parse_revision(request), initial, bookmarks, seconds)


async def stream_lines(
    server: ServerParts, request: ApiRequest, watch: Watch, writer: Encoder, bookmark_seconds: float
) -> AsyncGenerator[Sequence[bytes], None]:
    """Yield the lines of a watch: each time all lines that can be sent together.

    The watch ends at its time limit. If the requested changes are no longer kept, it ends with an ERROR line.
    """
    store, storage = server.store, request.target.resource.storage
    queue: asyncio.Queue[StoredChange] = asyncio.Queue()
    # No other code runs from here to the first yield, so no change is lost between the state and the later
    # changes.
    stop = store.listen(queue.put_nowait, storage)
    try:
        if watch.initial or watch.revision == 0:
            backlog = [
                writer.encode_event("ADDED", each)
                for each in store.all(storage)
                if watch.selection.matches(each.object)
            ]
            if watch.initial and watch.bookmarks:
                backlog.append(writer.encode_bookmark(store.revision, initial_end=True))
        else:
            try:
                past = store.since(storage, watch.revision)
            except StatusError as error:
                yield [encode_error(error)]
                return
            backlog = [line for change in past for line in encode_change(change, watch.selection, writer)]
        for first in range(0, len(backlog), _MAX_LINES):
            yield backlog[first : first + _MAX_LINES]
        async for lines in _follow(server, queue, watch, writer, bookmark_seconds):
            yield lines
    finally:
        stop()


async def _follow(
    server: ServerParts,
    queue: asyncio.Queue[StoredChange],
    watch: Watch,
    writer: Encoder,
    bookmark_seconds: float,
) -> AsyncGenerator[Sequence[bytes], None]:
    loop = asyncio.get_running_loop()
    end = loop.time() + watch.seconds
    next_bookmark = loop.time() + bookmark_seconds if watch.bookmarks else end
    while (now := loop.time()) < end and queue.qsize() < _MAX_QUEUED_CHANGES:
        try:
            changes = await _take_changes(queue, min(end, next_bookmark) - now)
        except TimeoutError:
            # A change may have arrived at the same time. A bookmark must not come before it, because the
            # bookmark would mean that the change was sent.
            if watch.bookmarks and queue.empty():
                yield [writer.encode_bookmark(server.store.revision, initial_end=False)]
                next_bookmark = loop.time() + bookmark_seconds
            continue
        lines = [
            line
            for change in changes
            if change.revision > watch.revision
            for line in encode_change(change, watch.selection, writer)
        ]
        if lines:
            yield lines


async def _take_changes(queue: asyncio.Queue[StoredChange], seconds: float) -> list[StoredChange]:
    """Wait for a change. Return all changes that are there, up to a maximum.

    Raises:
        TimeoutError: there was no change in this time.
    """
    changes: list[StoredChange] = []
    if queue.empty():
        async with asyncio.timeout(seconds):
            changes.append(await queue.get())
    while len(changes) < _MAX_LINES and not queue.empty():
        changes.append(queue.get_nowait())
    return changes


def encode_error(error: StatusError) -> bytes:
    """Return the last line of a watch that cannot continue."""
    return encode({"type": "ERROR", "object": error.body()}) + b"\n"


def encode_gone() -> bytes:
    """Return the last line of a watch that a test ends with 410."""
    return encode_error(expired("The resourceVersion for the provided watch is too old."))
