"""Answers of the API server within limits: the size of a body, packed and unpacked."""

import zlib
from typing import Final

from aiohttp import ClientResponse

from dradriver.kube.http.request import TooLongError

__all__ = ["read_body"]

_GZIP: Final = 16 + zlib.MAX_WBITS


async def read_body(answer: ClientResponse, most: int) -> bytes:
    """Reads a whole body and unpacks it.

    aiohttp's own decompression is off: it has no limit on packed bytes that unpack to nothing.

    Args:
        answer: an answer whose body nobody has read yet.
        most: the longest body that is read, in bytes. It holds for packed and for unpacked bytes.

    Returns:
        The unpacked body.

    Raises:
        TooLongError: the body is longer.
        aiohttp.ClientError: the connection broke, or the body breaks HTTP's rules.
        OSError: the connection broke, or the body can't be unpacked.
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
    """Unpacks the next bytes, to at most `most` + 1 bytes."""
    try:
        return gzip.decompress(packed, most + 1)
    except zlib.error as error:
        raise ConnectionError(f"the answer can't be unpacked: {error}") from error
