"""Describes failures of connections, and decides whether the request may have reached the server."""

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

__all__ = ["describe_failure", "is_tls_failure", "may_have_arrived"]

_WITHOUT_CONNECTION: Final = (ClientConnectorError, ClientHttpProxyError, ConnectionTimeoutError)


def is_tls_failure(error: Exception) -> bool:
    """Return whether the client or the server rejected the certificate or TLS version of the other side."""
    return isinstance(error, ClientSSLError)


def may_have_arrived(error: Exception) -> bool:
    """Return whether the request may have reached the server. False only if no connection was opened."""
    return not isinstance(error, _WITHOUT_CONNECTION)


def describe_failure(error: Exception) -> str:
    """Return a message for the failure of a connection. It contains the system's error text, if any."""
    cause = _cause(error)
    match cause:
        case TimeoutError():
            return "timeout: no answer in time"
        case ClientHttpProxyError():
            url = cause.request_info.url
            return f"the proxy cannot connect to {url.host}:{url.port}: {cause.status} {cause.message}"
        case ClientResponseError():
            return f"the answer is not HTTP: {' '.join(cause.message.split())}"
        case ServerDisconnectedError():
            return "the connection was closed without an answer"
        case ClientPayloadError():
            return "the connection was closed in the middle of the answer"
        case ssl.SSLError():
            return str(cause)  # the error number belongs to OpenSSL, not to the system
        case OSError():
            return _describe_system_error(cause)
        case _:
            return str(cause) or type(cause).__name__


def _cause(error: BaseException) -> BaseException:
    """Return the original failure. aiohttp wraps the system's errors in its own errors."""
    while isinstance(error.__cause__, ClientError | OSError):
        error = error.__cause__
    return error


def _describe_system_error(error: OSError) -> str:
    number = error.errno
    if number is None and (first := re.search(r"\[Errno (\d+)\]", str(error))):
        number = int(first[1])  # the text contains the failures of several addresses
    if number is not None and number > 0:
        return os.strerror(number)
    # Negative numbers are errors of the resolver. Only `strerror` explains them.
    return error.strerror or str(error) or type(error).__name__
