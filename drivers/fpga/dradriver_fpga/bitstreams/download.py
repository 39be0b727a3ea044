"""Downloads a file from a URL that the operator allows."""

from collections.abc import AsyncGenerator, Sequence
from typing import Final
from urllib.parse import urljoin

from dradriver_fpga.bitstreams.errors import BitstreamError
from dradriver_fpga.urls import parse_url

__all__ = ["download", "is_allowed"]

_MAX_REDIRECTS: Final = 5
_CHUNK_BYTES: Final = 1 << 18
_SOCKET_TIMEOUT: Final = 30.0


def is_allowed(url: str, prefixes: Sequence[str]) -> bool:
    """Return whether a URL has the scheme, host and port of a prefix, and a path below the prefix's path.

    An ambiguous URL is not allowed.
    """
    try:
        parsed = parse_url(url)
    except ValueError:
        return False
    return any(parsed.is_below(parse_url(prefix)) for prefix in prefixes)


async def download(url: str, prefixes: Sequence[str]) -> AsyncGenerator[bytes, None]:
    """Yield the file in pieces. A redirect is followed if the settings also allow its target.

    Raises:
        BitstreamError: the file cannot be downloaded, or a URL is not allowed.
    """
    import aiohttp  # noqa: PLC0415 - slow to import, and most nodes download nothing
    from yarl import URL  # noqa: PLC0415 - comes with it

    from dradriver_fpga.bitstreams.addresses import CheckedResolver  # noqa: PLC0415 - imports aiohttp

    timeout = aiohttp.ClientTimeout(total=None, connect=_SOCKET_TIMEOUT, sock_read=_SOCKET_TIMEOUT)
    try:
        connector = aiohttp.TCPConnector(resolver=CheckedResolver())
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, trust_env=True, auto_decompress=False
        ) as session:
            location = url
            for _ in range(_MAX_REDIRECTS):
                if not is_allowed(location, prefixes):
                    raise BitstreamError(f"url {location}: not allowed by the settings of this node", "Refused")
                # `encoded` ensures that the server gets exactly the URL that was compared.
                async with session.get(URL(location, encoded=True), allow_redirects=False) as response:
                    if response.status in {301, 302, 303, 307, 308}:
                        location = urljoin(location, response.headers.get("Location", ""))
                        continue
                    if response.status != 200:
                        raise BitstreamError(
                            f"url {location}: the server returned {response.status} {response.reason}",
                            "DownloadFailed",
                        )
                    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                        yield chunk
                    return
            raise BitstreamError(f"url {url}: more than {_MAX_REDIRECTS} redirects", "DownloadFailed")
    except (TimeoutError, aiohttp.ClientError, ValueError) as error:
        message = str(error) or type(error).__name__
        raise BitstreamError(f"url {url}: {message}", "DownloadFailed") from error
