"""Sends requests as raw bytes, which no HTTP client would send, and reads the answers."""

import asyncio
import json
import ssl
from dataclasses import dataclass, field
from typing import Any

from dradriver.cluster.apiserver import ApiServer

JSON = "application/json"


@dataclass(frozen=True)
class Raw:
    """One request."""

    method: str
    path: str | bytes
    body: bytes = b""
    content_type: str = JSON
    token: bytes | None = None
    headers: bytes = b""

    def bytes(self, token: bytes) -> bytes:
        """Return the bytes to send, with `token` unless the request has its own."""
        path = self.path if isinstance(self.path, bytes) else self.path.encode()
        head = b"%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" % (self.method.encode(), path)
        head += b"Authorization: Bearer %s\r\n" % (token if self.token is None else self.token)
        if self.body or self.method in {"POST", "PUT", "PATCH"}:
            head += b"Content-Type: %s\r\n" % self.content_type.encode()
            if b"Transfer-Encoding" not in self.headers:
                head += b"Content-Length: %d\r\n" % len(self.body)
        return head + self.headers + b"\r\n" + self.body


@dataclass(frozen=True)
class Got:
    """An answer; code 0 if there is none."""

    code: int
    body: Any = field(default=None)

    @property
    def reason(self) -> str:
        """The reason of a Status."""
        return str(self.body.get("reason", "")) if isinstance(self.body, dict) else ""

    @property
    def message(self) -> str:
        """The message of a Status, or the body."""
        return str(self.body.get("message", "")) if isinstance(self.body, dict) else str(self.body)


class RawClient:
    """Sends requests to a server, each on a new connection."""

    def __init__(self, server: ApiServer, user: str = "admin") -> None:
        host, port = server.url.removeprefix("https://").split(":")
        self._where = (host, int(port))
        self._context = ssl.create_default_context(cafile=str(server.ca_file))
        self._token: str = server.kubeconfig(user)["users"][0]["user"]["token"]

    async def send(self, request: Raw) -> Got:
        """Send a request and return the answer."""
        return await self.send_bytes(request.bytes(self._token.encode()))

    async def send_bytes(self, data: bytes) -> Got:
        """Send bytes and return the answer."""
        reader, writer = await asyncio.open_connection(*self._where, ssl=self._context)
        try:
            writer.write(data)
            await writer.drain()
            answer = await reader.read()
        except ConnectionError:
            answer = b""
        finally:
            writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        parts = head.split(b" ", 2)
        if len(parts) < 2:
            return Got(0)
        try:
            return Got(int(parts[1]), json.loads(body))
        except ValueError:
            return Got(int(parts[1]), body.decode(errors="replace"))
