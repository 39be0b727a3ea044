"""A client of a process's endpoints, like a probe or Prometheus."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from dradriver.runner.endpoints import Endpoints, Process
from tests.ports import reserve_port

__all__ = ["Asked", "served"]


class Asked:
    """Sends requests to the endpoints at one port."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.port = port
        self.host = host

    async def raw(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(request)
            writer.write_eof()
            return await reader.read()
        finally:
            writer.close()

    async def get(self, path: str, method: str = "GET", headers: str = "") -> tuple[int, str]:
        answer = await self.raw(f"{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()

    async def families(self) -> dict[str, Metric]:
        status, body = await self.get("/metrics")
        assert status == 200
        return {family.name: family for family in text_string_to_metric_families(body)}

    async def sample(self, name: str, **labels: str) -> float | None:
        """Return the value of the first sample that has these labels; None if there is none."""
        for family in (await self.families()).values():
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return sample.value
        return None


@asynccontextmanager
async def served(process: Process, host: str = "127.0.0.1") -> AsyncIterator[Asked]:
    port = reserve_port(host)
    async with Endpoints(process, host, port):
        yield Asked(port, host)
