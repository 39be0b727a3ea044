"""Downloads a file from a URL that the operator allows."""

from collections.abc import AsyncGenerator, Sequence
from typing import Final
from urllib.parse import urljoin

from dradriver_fpga.bitstreams.errors import BitstreamError
from dradriver_fpga.urls import parse_url

__all__ = ["download", "is_allowed"]

_REDIRECTS: Final = 5
_PIECE: Final = 1 << 18
_SILENCE_SECONDS: Final = 30.0


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
    """Yield the file in pieces. A redirect is followed if the settings allow its target too.

    Raises:
        BitstreamError: the file cannot be downloaded, or a URL is not allowed.
    """
    import aiohttp  # noqa: PLC0415 - slow to import, and most nodes download nothing
    from yarl import URL  # noqa: PLC0415 - comes with it

    timeout = aiohttp.ClientTimeout(total=None, connect=_SILENCE_SECONDS, sock_read=_SILENCE_SECONDS)
    try:
        async with aiohttp.ClientSession(timeout=timeout, trust_env=True, auto_decompress=False) as session:
            where = url
            for _ in range(_REDIRECTS):
                if not is_allowed(where, prefixes):
                    raise BitstreamError(f"url {where}: the settings of this node don't allow it", "Refused")
                # `encoded`: the server gets exactly the URL that was compared.
                async with session.get(URL(where, encoded=True), allow_redirects=False) as answer:
                    if answer.status in {301, 302, 303, 307, 308}:
                        where = urljoin(where, answer.headers.get("Location", ""))
                        continue
                    if answer.status != 200:
                        raise BitstreamError(
                            f"url {where} answers {answer.status} {answer.reason}", "DownloadFailed"
                        )
                    async for piece in answer.content.iter_chunked(_PIECE):
                        yield piece
                    return
            raise BitstreamError(f"url {url} is redirected more than {_REDIRECTS} times", "DownloadFailed")
    except (TimeoutError, aiohttp.ClientError, ValueError) as error:
        told = str(error) or type(error).__name__
        raise BitstreamError(f"url {url}: {told}", "DownloadFailed") from error
