"""Reads and decompresses the bodies of the API server's answers, within a size limit."""

import zlib
from typing import Final

from aiohttp import ClientResponse

from dradriver.kube.http.request import TooLongError

__all__ = ["read_body"]

_GZIP: Final = 16 + zlib.MAX_WBITS


async def read_body(answer: ClientResponse, max_bytes: int) -> bytes:
    """Read a whole body and decompress it.

    aiohttp's own decompression is not used, because it does not limit compressed bytes that decompress to
    nothing.

    Args:
        answer: an answer whose body is still unread.
        max_bytes: the maximum size of the body in bytes, both compressed and decompressed.

    Returns:
        The decompressed body.

    Raises:
        TooLongError: the body is longer than `max_bytes`.
        aiohttp.ClientError: the connection broke, or the body violates HTTP.
        OSError: the connection broke, or the body can't be decompressed.
    """
    if (answer.content_length or 0) > max_bytes:
        raise TooLongError("the answer", max_bytes)
    gzip = zlib.decompressobj(_GZIP) if answer.headers.get("Content-Encoding") == "gzip" else None
    parts: list[bytes] = []
    received = size = 0
    async for chunk in answer.content.iter_any():
        part = chunk if gzip is None else _decompress(gzip, chunk, max_bytes - size)
        parts.append(part)
        received, size = received + len(chunk), size + len(part)
        if max(received, size) > max_bytes:
            raise TooLongError("the answer", max_bytes)
    if gzip is not None and not gzip.eof:
        raise ConnectionError("the answer cannot be decompressed: its end is missing")
    return b"".join(parts)


def _decompress(gzip: "zlib._Decompress", compressed: bytes, max_bytes: int) -> bytes:
    """Decompress the next bytes. Return at most `max_bytes` + 1 bytes."""
    try:
        return gzip.decompress(compressed, max_bytes + 1)
    except zlib.error as error:
        raise ConnectionError(f"the answer cannot be decompressed: {error}") from error
