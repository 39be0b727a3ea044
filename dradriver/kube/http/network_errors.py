"""Failures of connections in plain words, and whether a request may have reached the server before."""

import os
import re
import ssl
from typing import Final

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientHttpProxyError,
    ClientPayloadError,
    ClientResponseError,
    ClientSSLError,
    ConnectionTimeoutError,
    ServerDisconnectedError,
)

__all__ = ["failed_handshake", "may_have_arrived", "words"]

_WITHOUT_CONNECTION: Final = (ClientConnectorError, ClientHttpProxyError, ConnectionTimeoutError)


def failed_handshake(error: Exception) -> bool:
    """Whether one side did not accept the other's certificate or TLS version."""
    return isinstance(error, ClientSSLError)


def may_have_arrived(error: Exception) -> bool:
    """Whether the request may have reached the server. False only if there never was a connection."""
    return not isinstance(error, _WITHOUT_CONNECTION)


def words(error: Exception) -> str:
    """Tells what went wrong with a connection, in the system's words where there are any."""
    cause = _cause(error)
    match cause:
        case TimeoutError():
            return "no answer in time"
        case ClientHttpProxyError():
            url = cause.request_info.url
            return f"the proxy does not connect to {url.host}:{url.port}: {cause.status} {cause.message}"
        case ClientResponseError():
            return f"the answer is no HTTP: {' '.join(cause.message.split())}"
        case ServerDisconnectedError():
            return "the connection was closed without an answer"
        case ClientPayloadError():
            return "the connection was closed in the middle of the answer"
        case ssl.SSLError():
            return str(cause)  # its number is OpenSSL's, not the system's
        case OSError():
            return _system_words(cause)
        case _:
            return str(cause) or type(cause).__name__


def _cause(error: BaseException) -> BaseException:
    """The first failure: aiohttp wraps the system's errors in its own."""
    while isinstance(error.__cause__, ClientError | OSError):
        error = error.__cause__
    return error


def _system_words(error: OSError) -> str:
    number = error.errno
    if number is None and (first := re.search(r"\[Errno (\d+)\]", str(error))):
        number = int(first[1])  # the failures of several addresses come as one text
    if number is not None and number > 0:
        return os.strerror(number)
    # Below zero are the resolver's errors, which only know their own words.
    return error.strerror or str(error) or type(error).__name__
