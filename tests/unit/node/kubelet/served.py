"""A server with one service, and gRPC's own client of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.wrappers_pb2 import BytesValue

from dradriver.node.kubelet.server import CallError, Method, SocketServer

LIMITS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
]
"""The client has no limits; every rejection is the server's."""


def text(value: str) -> BytesValue:
    return BytesValue(value=value.encode())


@dataclass
class Served:
    """The server, the calls that its handlers have seen, and the events that delay them.

    Attributes:
        gate: `Wait` answers when it is set.
        waiting: calls of `Wait` that have begun.
        cancelled: how often calls of `Wait` and `Cling` have been cancelled.
        answers: what `Count` answers.
    """

    path: Path
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0
    most: int = 0
    cancelled: int = 0
    produced: int = 0
    answers: int = 5
    server: SocketServer = field(init=False)

    def __post_init__(self) -> None:
        self.server = SocketServer(
            self.path,
            {
                f"/test.Echo/{name}": Method(BytesValue, getattr(self, f"_{name.lower()}"), streams)
                for name, streams in (("Say", False), ("Wait", False), ("Fail", False), ("Cling", False))
            }
            | {"/test.Echo/Count": Method(BytesValue, self._count, streams=True)},
        )

    @property
    def calls(self) -> set[asyncio.Task[Any]]:
        return self.server._calls.in_flight

    async def _say(self, request: BytesValue) -> BytesValue:
        return request

    async def _wait(self, request: BytesValue) -> BytesValue:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.waiting -= 1
        return request

    async def _cling(self, request: BytesValue) -> BytesValue:
        """Continue until the gate opens, also after a cancellation."""
        self.waiting += 1
        while not self.gate.is_set():
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
        self.waiting -= 1
        return request

    async def _fail(self, request: BytesValue) -> BytesValue:
        if request.value == b"cancelled":
            raise asyncio.CancelledError
        if request.value == b"defect":
            raise ValueError("a secret")
        raise CallError(grpc.StatusCode.NOT_FOUND, request.value.decode("utf-8", "surrogatepass"))

    async def _count(self, request: BytesValue) -> AsyncIterator[BytesValue]:
        for number in range(self.answers):
            self.produced += 1
            yield BytesValue(value=request.value * number)
        if request.value == b"fail":
            raise CallError(grpc.StatusCode.INTERNAL, "counted too far")

    @asynccontextmanager
    async def dial(self) -> AsyncIterator["Client"]:
        async with grpc.aio.insecure_channel(f"unix:{self.path}", options=LIMITS) as channel:
            yield Client(channel)


@dataclass
class Client:
    """gRPC's own client."""

    channel: grpc.aio.Channel

    def unary(self, method: str, request: BytesValue, **options: Any) -> grpc.aio.UnaryUnaryCall[Any, Any]:
        call = self.channel.unary_unary(
            f"/test.Echo/{method}", BytesValue.SerializeToString, BytesValue.FromString
        )
        return call(request, **options)

    def stream(self, request: BytesValue, **options: Any) -> grpc.aio.UnaryStreamCall[Any, Any]:
        call = self.channel.unary_stream(
            "/test.Echo/Count", BytesValue.SerializeToString, BytesValue.FromString
        )
        return call(request, **options)


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[Served]:
    served = Served(path)
    await served.server.start()
    try:
        yield served
    finally:
        served.gate.set()
        await served.server.stop(5)


async def eventually(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def refusal(call: Awaitable[object]) -> grpc.aio.AioRpcError:
    """How the call failed."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error
    raise AssertionError("the call did not fail")
