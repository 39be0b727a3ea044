"""A network between the extender and the API server that hangs, refuses connections, and cuts them."""

import asyncio
from types import TracebackType
from typing import Self

__all__ = ["Network"]


class Network:
    """Forwards connections to a port on the loopback interface: `async with Network(port) as network`.

    Attributes:
        port: the port to connect to.
    """

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._flows = asyncio.Event()
        self._flows.set()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self._listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.refuse()

    async def hang(self, seconds: float) -> None:
        """Deliver no byte for some time. Then all connections are cut, and new ones work."""
        self._flows.clear()
        await asyncio.sleep(seconds)
        self.cut()
        self._flows.set()

    async def refuse(self) -> None:
        """Cut all connections, and refuse new ones until `accept`."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def accept(self) -> None:
        """Accept connections again."""
        await self._listen()

    def cut(self) -> None:
        """Cut all connections."""
        for task in self._connections:
            task.cancel()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._forward(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            there, answers = await asyncio.open_connection("127.0.0.1", self._target)
            writers.append(answers)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, answers))
                group.create_task(self._pump(there, writer))
        except* OSError:
            pass
        finally:
            for each in writers:
                each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self._flows.wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError
