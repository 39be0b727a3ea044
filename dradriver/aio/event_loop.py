"""The event loop of a driver's process: uvloop's, with one correction."""

from asyncio import BaseProtocol
from collections.abc import Callable
from typing import TypeVar

import uvloop

__all__ = ["DriverEventLoop"]

P = TypeVar("P", bound=BaseProtocol)


class DriverEventLoop(uvloop.Loop):
    """uvloop's event loop, in which the opening of a connection can be canceled at any moment.

    uvloop 0.23 closes the socket of a canceled connection, but not its TLS protocol. If the answer to the
    handshake is read before the canceled task runs, the TLS protocol writes to the closed socket, and uvloop
    logs a traceback. Without the correction, users see the traceback when a driver ends just after its start.
    """

    async def create_connection(  # type: ignore[override] # the base class has one overload for each kind of address
        self, protocol_factory: Callable[[], P], *args: object, **options: object
    ) -> tuple[BaseProtocol, P]:
        """Open a connection. If this fails or is canceled, abort the transport of the connection's protocol.

        Args:
            protocol_factory: returns the protocol. Only a protocol with the attribute `transport`, as aiohttp's
                protocols have it, is protected.
            args: the arguments of uvloop's method.
            options: the options of uvloop's method.

        Returns:
            The transport and the protocol.
        """
        protocols: list[P] = []

        def create_protocol() -> P:
            protocols.append(protocol_factory())
            return protocols[-1]

        try:
            return await super().create_connection(create_protocol, *args, **options)  # type: ignore[call-overload,no-any-return]
        except BaseException:
            for protocol in protocols:
                transport = getattr(protocol, "transport", None)
                if transport is not None:
                    transport.abort()
            raise
