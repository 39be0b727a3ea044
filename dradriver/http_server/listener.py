"""Listen on an address for an aiohttp application."""

import errno
import ssl
from typing import Final

from aiohttp import web

from dradriver.errors import UsageError

__all__ = ["Listener"]

_SHUTDOWN_SECONDS: Final = 3.0
_KEEP_ALIVE_SECONDS: Final = 120.0
"""How long an idle connection stays open.

Longer than the 90 s of Go's clients. If the server closed first, a request that is sent at the same moment
would fail, because Go does not repeat a POST.
"""


class Listener:
    """Serves an application.

    Args:
        app: the application.
        host: the address to listen on. Empty: all addresses.
        port: the port. 0: any free port.
        context: the TLS context. None: plain HTTP.
        cancels: whether a request is canceled when its client closes the connection.

    Attributes:
        port: the port on which the server listens after `start()`.
    """

    def __init__(
        self,
        app: web.Application,
        *,
        host: str = "",
        port: int = 0,
        context: ssl.SSLContext | None = None,
        cancels: bool = False,
    ) -> None:
        self.port = port
        self._host, self._context = host, context
        # No access log, because it would have a line for every probe.
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=_SHUTDOWN_SECONDS,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            handler_cancellation=cancels,
        )

    async def start(self) -> None:
        """Listen.

        Raises:
            UsageError: the address cannot be used.
        """
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host or None, self.port, ssl_context=self._context)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            taken = error.errno == errno.EADDRINUSE
            reason = "another process listens on it" if taken else error.strerror
            raise UsageError(f"cannot listen on {self._host or 'port'}:{self.port}: {reason}") from error
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close the socket, and end the requests in progress."""
        await self._runner.cleanup()
