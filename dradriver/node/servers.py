"""The two gRPC servers of a plugin: the service socket and the registration socket."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from dradriver.errors import UsageError
from dradriver.node.sockets import make_room

__all__ = ["Probe", "SocketServer"]


class SocketServer:
    """One gRPC server on a Unix socket.

    Args:
        path: the socket.
        add: adds the services.
    """

    def __init__(self, path: Path, add: Callable[[grpc.aio.Server], None]) -> None:
        self.path = path
        self._add = add
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Listens; a stale socket in its place is removed.

        Raises:
            UsageError: the socket can't be made, or another process serves it.
        """
        await asyncio.to_thread(make_room, self.path)
        server = grpc.aio.server()
        self._add(server)
        try:
            server.add_insecure_port(f"unix:{self.path}")
            await server.start()
        except RuntimeError as error:
            raise UsageError(f"{self.path}: can't listen: {error}") from error
        self._server = server

    async def stop(self, grace: float) -> None:
        """Takes no new calls, lets those in flight end for `grace` seconds, and removes the socket."""
        if self._server is None:
            return
        server, self._server = self._server, None
        with suppress(OSError):  # the next instance takes it away
            await asyncio.to_thread(self.path.unlink, missing_ok=True)
        await server.stop(grace)


class Probe:
    """grpc.health.v1 for liveness probes: answered by the loop itself, whatever claims are being prepared."""

    def __init__(self) -> None:
        self._servicer = health.aio.HealthServicer()  # type: ignore[attr-defined]  # the stubs lack it

    def add_to_server(self, server: grpc.aio.Server) -> None:
        """Serves the probe."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def serving(self) -> None:
        """The plugin works."""
        for service in ("", "liveness"):  # the second is what probes of other DRA drivers ask for
            await self._servicer.set(service, health_pb2.HealthCheckResponse.SERVING)

    async def stopping(self) -> None:
        """The plugin is about to end."""
        await self._servicer.enter_graceful_shutdown()
