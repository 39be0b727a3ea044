"""The server of one Unix socket: its connections, and a task for each call."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, cast

from google.protobuf.message import DecodeError, Message

from dradriver.rpc.connection import Abandoned, Connection, Event, Request, Sent
from dradriver.rpc.errors import Code, RpcError
from dradriver.rpc.methods import Method

__all__ = ["Server"]

_log = logging.getLogger(__name__)

_CLOSE_SECONDS: Final = 1.0
"""For clients that don't read what they are told, and handlers that don't end when they are cancelled."""


class Server:
    """Serves methods: `await listen()`; at the end `leave()`, wait for the `calls`, `await close()`.

    Args:
        methods: what is served, by path (`methods_of`).
    """

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = methods
        self._peers: set[_Peer] = set()
        self._listener: asyncio.AbstractServer | None = None

    async def listen(self, path: Path) -> None:
        """Makes the socket and serves whoever connects.

        Raises:
            OSError: the socket can't be made.
        """
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_unix_server(lambda: _Peer(self._methods, self._peers), str(path))

    @property
    def calls(self) -> set[asyncio.Task[None]]:
        """The calls in flight."""
        return {task for peer in self._peers for task in peer.calls.values()}

    def leave(self) -> None:
        """Takes no new connections and no new calls: clients are told to go elsewhere with these."""
        if self._listener is not None:
            self._listener.close()
        for peer in self._peers:
            peer.leave()

    async def close(self) -> None:
        """Ends the connections: calls in flight are cancelled, what was answered goes out before."""
        self.leave()
        for end in (_Peer.close, _Peer.abort):
            if peers := list(self._peers):
                for peer in peers:
                    end(peer)
                await asyncio.wait({peer.gone for peer in peers}, timeout=_CLOSE_SECONDS)


class _Peer(asyncio.Protocol):
    """One connection; it is among `peers` while it is open."""

    def __init__(self, methods: Mapping[str, Method], peers: set["_Peer"]) -> None:
        self._methods = methods
        self._peers = peers
        self._loop = asyncio.get_running_loop()
        self._connection = Connection()
        self._transport: asyncio.Transport
        self._unsent: dict[int, asyncio.Future[None]] = {}
        self._closing = False
        self.calls: dict[int, asyncio.Task[None]] = {}
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Done when the connection is closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        self._peers.add(self)
        self._write()

    def data_received(self, data: bytes) -> None:
        """The client has sent something."""
        for event in self._connection.receive(data):
            self._take(event)
        self._write()
        if self._connection.broken:
            self.close()

    def pause_writing(self) -> None:
        """The client does not read: it is not listened to until it does, so that answers don't pile up."""
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - nobody is left to be told
        """Nobody waits for the answers any more."""
        for task in self.calls.values():
            task.cancel()
        self._peers.discard(self)
        self.gone.set_result(None)

    def leave(self) -> None:
        """Takes no new calls."""
        self._connection.leave()
        self._write()

    def close(self) -> None:
        """Cancels what is in flight, and ends the connection after that."""
        self._closing = True
        for task in self.calls.values():
            task.cancel()
        if not self.calls:
            self._transport.close()

    def abort(self) -> None:
        """Ends the connection now."""
        self._transport.abort()

    def _take(self, event: Event) -> None:
        match event:
            case Request(stream, head):
                task = self._loop.create_task(self._serve(event), name=head.path)
                self.calls[stream] = task
                task.add_done_callback(lambda _: self._over(stream))
            case Abandoned(stream) if stream in self.calls:
                self.calls[stream].cancel()
            case Sent(stream) if stream in self._unsent:
                self._unsent.pop(stream).set_result(None)

    def _over(self, stream: int) -> None:
        del self.calls[stream]
        if self._closing and not self.calls:
            self._transport.close()

    async def _serve(self, request: Request) -> None:
        code, text = Code.OK, ""
        limit = asyncio.timeout(request.head.seconds)
        try:
            async with limit:
                await self._answer(request)
        except RpcError as error:
            code, text = error.code, error.text
        except asyncio.CancelledError:
            code, text = Code.UNAVAILABLE, "the server is stopping"
            raise
        except Exception as error:
            code, text = Code.DEADLINE_EXCEEDED, "the caller's time is over"
            if not (isinstance(error, TimeoutError) and limit.expired()):
                code, text = _defect(request, error)
        finally:
            self._connection.end(request.stream, code, text)
            self._write()

    async def _answer(self, request: Request) -> None:
        method = self._methods.get(request.head.path)
        if method is None:
            raise RpcError(Code.UNIMPLEMENTED, f"there is no method {request.head.path}")
        try:
            asked = method.request.FromString(request.message)
        except DecodeError as error:
            raise RpcError(Code.INTERNAL, f"the request is no {method.request.DESCRIPTOR.full_name}") from error
        if not method.streams:
            answer = await cast(Awaitable[Message], method.handler(asked))
            self._connection.send(request.stream, answer.SerializeToString())
            return
        async with aclosing(cast(Any, method.handler(asked))) as answers:
            async for answer in cast(AsyncIterator[Message], answers):
                await self._say(request.stream, answer.SerializeToString())

    async def _say(self, stream: int, message: bytes) -> None:
        """One of several answers; the next one is only asked for when it has gone out."""
        if self._connection.send(stream, message):
            self._write()
            return
        waiter = self._unsent[stream] = self._loop.create_future()
        self._write()
        try:
            await waiter
        finally:
            self._unsent.pop(stream, None)

    def _write(self) -> None:
        if data := self._connection.take():
            self._transport.write(data)


def _defect(request: Request, error: Exception) -> tuple[Code, str]:
    """What the caller is told of an error that no handler should raise: nothing that its text may quote."""
    name = type(error).__name__
    _log.error("%s raised %s", request.head.path, name, exc_info=error)
    return Code.UNKNOWN, f"internal error: {name}; the driver's log says where"
