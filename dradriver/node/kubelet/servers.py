"""The two sockets of a plugin: the service socket and the registration socket."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from dradriver.aio.tasks import end
from dradriver.errors import UsageError
from dradriver.node.kubelet.sockets import make_room
from dradriver.rpc import Method, Server

__all__ = ["SocketServer"]


class SocketServer:
    """One gRPC server on a Unix socket.

    Args:
        path: the socket.
        methods: what is served.
    """

    def __init__(self, path: Path, methods: Mapping[str, Method]) -> None:
        self.path = path
        self._methods = methods
        self._server: Server | None = None

    async def start(self) -> None:
        """Listens; a stale socket in its place is removed.

        Raises:
            UsageError: the socket can't be made, or another process serves it.
        """
        await asyncio.to_thread(make_room, self.path)
        server = Server(self._methods)
        try:
            await server.listen(self.path)
        except OSError as error:
            raise UsageError(f"{self.path}: can't listen: {error}") from error
        self._server = server

    async def stop(self, grace: float) -> None:
        """Takes no new calls, lets those in flight end for `grace` seconds, and removes the socket."""
        if self._server is None:
            return
        server, self._server = self._server, None
        with suppress(OSError):  # the next instance takes it away
            await asyncio.to_thread(self.path.unlink, missing_ok=True)
        server.leave()
        await end(server.calls, grace)
        await server.close()
