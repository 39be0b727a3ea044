"""Bodies of the API server's answers, read and decompressed within a size limit."""

import zlib
from typing import Final

from aiohttp import ClientResponse

from dradriver.kube.http.request import TooLongError

__all__ = ["read_body"]

_GZIP: Final = 16 + zlib.MAX_WBITS


async def read_body(answer: ClientResponse, most: int) -> bytes:
    """Read a whole body and decompress it.

    aiohttp's own decompression is off, because it has no limit on compressed bytes that decompress to nothing.

    Args:
        answer: an answer whose body is still unread.
        most: the largest body to accept, in bytes. The limit holds for the compressed and for the decompressed
            bytes.

    Returns:
        The decompressed body.

    Raises:
        TooLongError: the body is longer.
        aiohttp.ClientError: the connection broke, or the body violates HTTP.
        OSError: the connection broke, or the body can't be decompressed.
    """
    if (answer.content_length or 0) > most:
        raise TooLongError("the answer", most)
    gzip = zlib.decompressobj(_GZIP) if answer.headers.get("Content-Encoding") == "gzip" else None
    parts: list[bytes] = []
    received = size = 0
    async for chunk in answer.content.iter_any():
        part = chunk if gzip is None else _unpack(gzip, chunk, most - size)
        parts.append(part)
        received, size = received + len(chunk), size + len(part)
        if max(received, size) > most:
            raise TooLongError("the answer", most)
    if gzip is not None and not gzip.eof:
        raise ConnectionError("the answer can't be unpacked: its end is missing")
    return b"".join(parts)


def _unpack(gzip: "zlib._Decompress", packed: bytes, most: int) -> bytes:
    """Decompress the next bytes, to at most `most` + 1 bytes."""
    try:
        return gzip.decompress(packed, most + 1)
    except zlib.error as error:
        raise ConnectionError(f"the answer can't be unpacked: {error}") from error
