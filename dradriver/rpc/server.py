"""The server of one Unix socket: its connections, and a task for each call."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from google.protobuf.message import DecodeError, Message

from dradriver.rpc.connection import Abandoned, Connection, Event, Request, Sent
from dradriver.rpc.errors import Code, RpcError
from dradriver.rpc.methods import Method
from dradriver.rpc.settings import MAX_STREAMS

__all__ = ["Server"]

_log = logging.getLogger(__name__)

_CLOSE_SECONDS: Final = 1.0
"""For clients that don't read what they are told, and handlers that don't end when they are cancelled."""

_STOPPING: Final = (Code.UNAVAILABLE, "the server is stopping")
_TOO_LATE: Final = (Code.DEADLINE_EXCEEDED, "the caller's time is over")
_NOT_ENDED: Final = (Code.RESOURCE_EXHAUSTED, "too many calls go on although they were cancelled")


class Server:
    """Serves methods: `await listen()`; at the end `leave()`, wait for the `calls`, `await close()`.

    Args:
        methods: what is served, by path (`methods_of`).
    """

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._served = _Served(methods)
        self._listener: asyncio.AbstractServer | None = None

    async def listen(self, path: Path) -> None:
        """Makes the socket and serves whoever connects.

        Raises:
            OSError: the socket can't be made.
        """
        self._listener = await asyncio.get_running_loop().create_unix_server(self.accept, str(path))

    def accept(self) -> asyncio.Protocol:
        """What serves one more connection, of whatever transport."""
        return _Peer(self._served)

    @property
    def calls(self) -> set[asyncio.Task[None]]:
        """The calls in flight, and those that nobody waits for any more but that have not ended."""
        return {task for peer in self._served.peers for task in peer.calls.values()}

    def leave(self) -> None:
        """Takes no new connections and no new calls: clients are told to go elsewhere with these."""
        self._served.leaving = True
        if self._listener is not None:
            self._listener.close()
        for peer in self._served.peers:
            peer.leave()

    async def close(self) -> None:
        """Ends the connections: calls in flight are cancelled, what was answered goes out before.

        A call that a client makes in this moment is refused in a way that lets it try elsewhere: its connection
        is closed when it has read that we leave.
        """
        self.leave()
        for peer in self._served.peers:
            peer.close()
        await self._gone(self.calls)
        for peer in self._served.peers:
            peer.abort()
        await self._gone(set())

    async def _gone(self, calls: set[asyncio.Task[None]]) -> None:
        if gone := {peer.gone for peer in self._served.peers}:
            await asyncio.wait(gone | calls, timeout=_CLOSE_SECONDS)


@dataclass(slots=True)
class _Served:
    """What the connections of a server share.

    Attributes:
        methods: what is served, by path.
        peers: the connections that are open, or have calls that have not ended.
        leaving: whether nobody is served any more who is not among them.
    """

    methods: Mapping[str, Method]
    peers: set["_Peer"] = field(default_factory=set)
    leaving: bool = False


class _Peer(asyncio.Protocol):
    """One connection."""

    def __init__(self, served: _Served) -> None:
        self._served = served
        self._loop = asyncio.get_running_loop()
        self._connection = Connection()
        self._transport: asyncio.Transport
        self._kept_back: dict[int, asyncio.Future[None]] = {}
        self._dismissed: set[int] = set()
        self._reads = asyncio.Event()
        self._reads.set()
        self._closing = False
        self.calls: dict[int, asyncio.Task[None]] = {}
        """Those that have not ended, by stream."""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Done when the connection is closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        if self._served.leaving:  # it was accepted before
            self._transport.abort()
            return
        self._served.peers.add(self)
        self._write()

    def data_received(self, data: bytes) -> None:
        """The client has sent something."""
        for event in self._connection.receive(data):
            self._take(event)
        self._write()
        if self._connection.broken:
            self.close()
        elif self._closing:
            self._close_if_over()

    def pause_writing(self) -> None:
        """The client does not read: it is not listened to until it does, so that answers don't pile up."""
        self._reads.clear()
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._reads.set()
        self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - nobody is left to be told
        """Nobody waits for the answers any more."""
        self.gone.set_result(None)
        self._dismiss_all()
        self._settle()

    def leave(self) -> None:
        """Takes no new calls."""
        self._connection.leave()
        self._write()

    def close(self) -> None:
        """Cancels what is in flight, and ends the connection when the client knows that nothing follows."""
        self._closing = True
        self._dismiss_all()
        self._write()
        self._close_if_over()

    def _close_if_over(self) -> None:
        if self._connection.is_over:
            self._transport.close()

    def abort(self) -> None:
        """Ends the connection now."""
        self._transport.abort()

    def _take(self, event: Event) -> None:
        match event:
            case Request(stream) if len(self._dismissed) > MAX_STREAMS:
                self._connection.end(stream, *_NOT_ENDED)
            case Request(stream):
                self._begin(event)
            case Abandoned(stream) if stream in self.calls:
                self._dismiss(stream, *_STOPPING)
            case Sent(stream) if (waiter := self._kept_back.get(stream)) and not waiter.done():
                waiter.set_result(None)

    def _begin(self, request: Request) -> None:
        task = self.calls[request.stream] = self._loop.create_task(self._serve(request), name=request.head.path)
        limit: asyncio.TimerHandle | None = None
        if request.head.seconds is not None:
            limit = self._loop.call_later(request.head.seconds, self._expire, request.stream)
        task.add_done_callback(lambda _: self._over(request.stream, limit))

    def _expire(self, stream: int) -> None:
        self._dismiss(stream, *_TOO_LATE)
        self._write()

    def _dismiss_all(self) -> None:
        for stream in self.calls:
            self._dismiss(stream, *_STOPPING)

    def _dismiss(self, stream: int, code: Code, text: str) -> None:
        """Nobody waits for the answer: its handler is told once, for it may be cleaning up the second time."""
        if stream not in self._dismissed:
            self._dismissed.add(stream)
            self._connection.end(stream, code, text)
            self.calls[stream].cancel()

    def _over(self, stream: int, limit: asyncio.TimerHandle | None) -> None:
        if limit is not None:
            limit.cancel()
        if self.calls.pop(stream).cancelled():
            self._connection.end(stream, *_STOPPING)  # whoever waits for `calls` has cancelled it
            self._write()
        self._dismissed.discard(stream)
        self._settle()

    def _settle(self) -> None:
        if self.gone.done() and not self.calls:
            self._served.peers.discard(self)

    async def _serve(self, request: Request) -> None:
        code, text = Code.OK, ""
        try:
            await self._answer(request)
        except RpcError as error:
            code, text = error.code, error.text
        except asyncio.CancelledError as error:
            if self.calls[request.stream].cancelling():
                raise
            code, text = _defect(request, error)
        except Exception as error:
            code, text = _defect(request, error)
        self._connection.end(request.stream, code, text)
        self._write()

    async def _answer(self, request: Request) -> None:
        method = self._served.methods.get(request.head.path)
        if method is None:
            raise RpcError(Code.UNIMPLEMENTED, f"there is no method {request.head.path}")
        try:
            asked = method.request.FromString(request.message)
        except DecodeError as error:
            raise RpcError(Code.INTERNAL, f"the request is no {method.request.DESCRIPTOR.full_name}") from error
        if not method.streams:
            answer = await cast(Awaitable[Message], method.handler(asked))
            if not self._connection.send(request.stream, answer.SerializeToString()):
                await self._goes_out(request.stream)
            return
        async with aclosing(cast(Any, method.handler(asked))) as answers:
            async for answer in cast(AsyncIterator[Message], answers):
                await self._say(request.stream, answer.SerializeToString())

    async def _say(self, stream: int, message: bytes) -> None:
        """One of several answers; the next one is only asked for when it has gone out."""
        if not self._connection.send(stream, message):
            await self._goes_out(stream)
        self._write()
        await self._reads.wait()

    async def _goes_out(self, stream: int) -> None:
        """Waits until the client's windows have let out what they keep back."""
        waiter = self._kept_back[stream] = self._loop.create_future()
        self._write()
        try:
            await waiter
        finally:
            del self._kept_back[stream]

    def _write(self) -> None:
        if (data := self._connection.take()) and not self._transport.is_closing():
            self._transport.write(data)


def _defect(request: Request, error: BaseException) -> tuple[Code, str]:
    """What the caller is told of an error that no handler should raise: nothing that its text may quote."""
    name = type(error).__name__
    _log.error("%s raised %s", request.head.path, name, exc_info=error)
    return Code.UNKNOWN, f"internal error: {name}; the driver's log says where"
