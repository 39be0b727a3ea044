"""Messages for failures of connections, and whether the request may have reached the server."""

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
    """Return whether one side rejected the other's certificate or TLS version."""
    return isinstance(error, ClientSSLError)


def may_have_arrived(error: Exception) -> bool:
    """Return whether the request may have reached the server. False only if no connection was ever open."""
    return not isinstance(error, _WITHOUT_CONNECTION)


def words(error: Exception) -> str:
    """Return a message for the failure of a connection, with the system's text where there is one."""
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
            return str(cause)  # the number is OpenSSL's, not the system's
        case OSError():
            return _system_words(cause)
        case _:
            return str(cause) or type(cause).__name__


def _cause(error: BaseException) -> BaseException:
    """Return the first failure, because aiohttp wraps the system's errors in its own."""
    while isinstance(error.__cause__, ClientError | OSError):
        error = error.__cause__
    return error


def _system_words(error: OSError) -> str:
    number = error.errno
    if number is None and (first := re.search(r"\[Errno (\d+)\]", str(error))):
        number = int(first[1])  # the failures of several addresses are joined in one text
    if number is not None and number > 0:
        return os.strerror(number)
    # Negative numbers are the resolver's errors; only their own text explains them.
    return error.strerror or str(error) or type(error).__name__
