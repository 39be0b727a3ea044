"""The gRPC server of one Unix socket: grpcio's asyncio server, with limits, safe errors and a graceful stop.

grpcio implements HTTP/2 and gRPC (`docs/decisions/0001-grpc-on-grpcio.md`). This module adds what grpcio leaves
to its users: limits, status messages without secrets, and a stop that lets calls in flight end.

If a process dies, its socket stays. The next start removes the socket (`make_room`).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, cast
from urllib.parse import quote

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from dradriver.aio.tasks import end
from dradriver.errors import UsageError
from dradriver.node.kubelet.sockets import make_room

__all__ = [
    "MAX_CALLS",
    "MAX_MESSAGE",
    "MAX_METADATA",
    "MAX_STREAMS",
    "CallError",
    "Method",
    "SocketServer",
    "methods_of",
]

_log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[Any], Awaitable[Message]] | Callable[[Any], AsyncIterator[Message]]
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

MAX_MESSAGE: Final = 4 * 2**20
"""Maximum size of a request in bytes; gRPC's usual limit."""
MAX_METADATA: Final = 16 * 2**10
"""Maximum size of a request's header fields in bytes; a kubelet sends a few hundred."""
MAX_STREAMS: Final = 256
"""Maximum number of calls in flight on one connection; a client queues further calls by itself."""
MAX_CALLS: Final = 2 * MAX_STREAMS
"""Maximum number of calls in flight on all connections, including canceled calls that have not ended."""
_HANDSHAKE_SECONDS: Final = 10.0
"""Time limit for the first bytes on a new connection; a kubelet sends them within milliseconds."""

_IDENTITY_ONLY: Final = 1

_OPTIONS: Final = {
    # One client must not occupy the process. A client queues its calls beyond the limit.
    "grpc.max_concurrent_streams": MAX_STREAMS,
    # A request is read into memory as a whole.
    "grpc.max_receive_message_length": MAX_MESSAGE,
    # The soft limit and the hard limit are equal: between them, grpcio would reject requests at random.
    "grpc.max_metadata_size": MAX_METADATA,
    "grpc.absolute_max_metadata_size": MAX_METADATA,
    # A connection without a handshake is closed after this time; grpcio's default is two minutes.
    "grpc.server_handshake_timeout_ms": int(_HANDSHAKE_SECONDS * 1000),
    # A few compressed bytes could expand to a large request. No kubelet compresses.
    "grpc.compression_enabled_algorithms_bitset": _IDENTITY_ONLY,
}
"""The channel options that differ from grpcio's defaults, each with its reason.

Keepalive stays off, because the kernel reports when the peer of a Unix socket has ended. A connection may be
idle without limit, because a kubelet keeps its connection open between calls.
"""

_MAX_TEXT: Final = 2000
"""Maximum size of a status message in bytes. It is sent as a header field, whose size clients limit too."""

_CLOSE_SECONDS: Final = 1.0
"""Time to wait at a stop for clients that do not read, and for handlers that ignore their cancellation."""
_FAR_AWAY: Final = 86400.0
"""Seconds; longer than any grace period."""
_ROUND_SECONDS: Final = 0.02
_CALM_ROUNDS: Final = 3
"""If no new call arrives for so many rounds, the handlers of all calls that clients have sent have started."""
_MAX_ROUNDS: Final = 250

_STOPPING: Final = (grpc.StatusCode.UNAVAILABLE, "the server is stopping")


class CallError(Exception):
    """Raised by a handler to end its call with a status that is not OK.

    Attributes:
        code: the status.
        text: the message for the caller.
    """

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True)
class Method:
    """One method of a service.

    Attributes:
        request: the class of the request.
        handler: takes a request and returns the answer, or yields answers if `streams` is True. It may raise a
            `CallError`.
        streams: whether the method returns a stream of answers.
    """

    request: type[Message]
    handler: Handler
    streams: bool


def methods_of(service: ServiceDescriptor, servicer: object) -> dict[str, Method]:
    """Return the methods of a service that a servicer object implements.

    Args:
        service: the description in the generated module, such as
            `messages.DESCRIPTOR.services_by_name["DRAPlugin"]`.
        servicer: has a method of the same name for each method of the service. The servicer's method takes the
            request. It is a coroutine function, or an asynchronous generator function if the service streams
            the answers.

    Returns:
        The methods by path (`/package.Service/Method`).

    Raises:
        AttributeError: the servicer lacks a method.
    """
    return {
        f"/{service.full_name}/{method.name}": Method(
            GetMessageClass(method.input_type), getattr(servicer, method.name), method.server_streaming
        )
        for method in service.methods
    }


class SocketServer:
    """One gRPC server on a Unix socket: `await start()`, and `await stop(grace)` at the end.

    Args:
        path: the socket.
        methods: the methods that are served, by path (`methods_of`).
    """

    def __init__(self, path: Path, methods: Mapping[str, Method]) -> None:
        self.path = path
        self._calls = _Calls(methods)
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Listen; remove a stale socket at the path first.

        Raises:
            UsageError: the socket cannot be created, or another process serves it.
        """
        await asyncio.to_thread(make_room, self.path)
        server = grpc.aio.server(
            handlers=(self._calls,), options=tuple(_OPTIONS.items()), maximum_concurrent_rpcs=MAX_CALLS
        )
        try:
            server.add_insecure_port(f"unix:{quote(str(self.path))}")  # grpcio parses the address as a URI
        except RuntimeError as error:
            raise UsageError(f"socket {self.path}: can't listen: {error}") from error
        self._server = server
        await server.start()

    async def stop(self, grace: float) -> None:
        """Reject new calls, let calls in flight end, and remove the socket.

        New calls, and calls that are still in flight after `grace`, are answered UNAVAILABLE. If a handler
        ignores its cancellation, it is abandoned.

        grpcio removes the socket when it stops listening. No other code may remove it later: the next instance
        may have created its own socket at the path by then.

        Args:
            grace: seconds for calls in flight.
        """
        if self._server is None:
            return
        server, self._server = self._server, None
        self._calls.stopping = True
        await self._calls.wait_calm()
        leaving = asyncio.create_task(server.stop(_FAR_AWAY), name=f"leave {self.path.name}")
        await end(self._calls.in_flight, grace)
        closing = asyncio.create_task(server.stop(_CLOSE_SECONDS), name=f"close {self.path.name}")
        await asyncio.wait({leaving, closing}, timeout=2 * _CLOSE_SECONDS)
        for task in (leaving, closing):
            task.cancel()
        await asyncio.gather(leaving, closing, return_exceptions=True)


class _Calls(grpc.GenericRpcHandler):  # type: ignore[type-arg] # generic in the stubs only
    """Finds the handler of each call, and ends the call with a status when the handler fails.

    Attributes:
        in_flight: the task of each call that has begun. A task ends when the answer has been passed to grpcio.
        stopping: whether new and canceled calls are answered UNAVAILABLE.
    """

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self.in_flight: set[asyncio.Task[Any]] = set()
        self.stopping = False
        self._begun = 0
        self._handlers = {path: self._handler(path, method) for path, method in methods.items()}

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[Any, Any] | None":
        """Return the handler of a path; None for an unknown path, so that grpcio answers UNIMPLEMENTED."""
        return self._handlers.get(handler_call_details.method)

    async def wait_calm(self) -> None:
        """Wait until no new calls arrive, for some seconds at most.

        When grpcio's server stops, it cancels calls that it has received but not yet passed to a handler. The
        callers would get CANCELLED, which, unlike UNAVAILABLE, does not ask them to retry.

        A round after which the loop was woken late does not count: the machine is busy, and grpcio's threads
        may not have run either.
        """
        clock, calm = asyncio.get_running_loop().time, 0
        for _ in range(_MAX_ROUNDS):
            begun, start = self._begun, clock()
            await asyncio.sleep(_ROUND_SECONDS)
            if self._begun != begun:
                calm = 0
            elif clock() - start < 2 * _ROUND_SECONDS:
                calm += 1
            if calm == _CALM_ROUNDS:
                return

    def _handler(self, path: str, method: Method) -> "grpc.RpcMethodHandler[Any, Any]":
        async def serve_unary(request: bytes, context: Context) -> bytes:
            try:
                self._begin()
                answer = await cast(Awaitable[Message], method.handler(_decode(method, request)))
                return answer.SerializeToString()
            except (Exception, asyncio.CancelledError) as error:
                await self._fail(path, context, error)
                raise

        async def serve_stream(request: bytes, context: Context) -> None:
            try:
                self._begin()
                async with aclosing(cast(Any, method.handler(_decode(method, request)))) as answers:
                    async for answer in cast(AsyncIterator[Message], answers):
                        await _write(context, answer.SerializeToString())
            except (Exception, asyncio.CancelledError) as error:
                await self._fail(path, context, error)
                raise

        # Without serializers grpcio passes bytes. With serializers, it would quote their exceptions in the
        # status.
        if method.streams:
            return grpc.unary_stream_rpc_method_handler(serve_stream)
        return grpc.unary_unary_rpc_method_handler(serve_unary)

    def _begin(self) -> None:
        self._begun += 1
        if self.stopping:
            raise CallError(*_STOPPING)
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self.in_flight.add(task)
        task.add_done_callback(self.in_flight.discard)

    async def _fail(self, path: str, context: Context, error: BaseException) -> None:
        """End a call with the status for an error; returns only if the caller is gone (`abort` raises)."""
        code, text = _STOPPING
        if isinstance(error, CallError):
            code, text = error.code, error.text
        elif isinstance(error, _CallerLeft):
            return
        elif not isinstance(error, asyncio.CancelledError) or not _is_cancelled():
            name = type(error).__name__
            _log.error("%s raised %s", path, name, exc_info=error)
            code, text = grpc.StatusCode.UNKNOWN, f"internal error: {name}; the driver's log has the location"
        elif not self.stopping:
            return
        await context.abort(code, _header_text(text))


class _CallerLeft(asyncio.CancelledError):
    """An answer could not be written, because the caller is gone."""


def _is_cancelled() -> bool:
    """Return whether the call was canceled; if not, the handler raised CancelledError by mistake."""
    return cast("asyncio.Task[Any]", asyncio.current_task()).cancelling() > 0


def _decode(method: Method, request: bytes) -> Message:
    try:
        return method.request.FromString(request)
    except DecodeError as error:
        text = f"the request is not a {method.request.DESCRIPTOR.full_name}"
        raise CallError(grpc.StatusCode.INTERNAL, text) from error


async def _write(context: Context, answer: bytes) -> None:
    try:
        await context.write(answer)
    except grpc.aio.InternalError as error:
        raise _CallerLeft from error


def _header_text(text: str) -> str:
    """Return the text, cut to the limit, without lone surrogates (from file names that are not UTF-8)."""
    return text.encode(errors="replace")[:_MAX_TEXT].decode(errors="ignore")
