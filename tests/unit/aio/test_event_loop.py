"""The event loop of a driver's process: a task can be canceled at any moment while it opens a connection."""

import asyncio
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp.client_proto import ResponseHandler

from dradriver.aio.event_loop import DriverEventLoop
from tests.unit.admission.certificates import make_pair


class Server(threading.Thread):
    """A TLS server with one connection. It answers the first message, and waits until the client closes."""

    def __init__(self, connection: socket.socket, tls: ssl.SSLContext) -> None:
        super().__init__()
        self._connection = connection
        self._tls = tls
        self.answered = threading.Event()

    def run(self) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = self._tls.wrap_bio(incoming, outgoing, server_side=True)
        incoming.write(self._connection.recv(2**16))
        with suppress(ssl.SSLWantReadError):
            session.do_handshake()
        self._connection.sendall(outgoing.read())
        self.answered.set()
        with suppress(ConnectionResetError):
            while self._connection.recv(2**16):
                pass
        self._connection.close()


def test_a_task_that_is_canceled_as_its_tls_connection_opens_reports_no_error(tmp_path: Path) -> None:
    """The task is canceled between two steps. The answer of the server arrives before the second one."""
    pair = make_pair("server")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*pair.write(tmp_path))
    trust = ssl.create_default_context(cadata=pair.certificate)
    ours, theirs = socket.socketpair()
    server = Server(theirs, tls)
    reported: list[dict[str, Any]] = []

    async def cancel_between_two_steps() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        opening = loop.create_task(
            loop.create_connection(
                lambda: ResponseHandler(loop), sock=ours, ssl=trust, server_hostname="localhost"
            )
        )

        def cancel() -> None:
            assert server.answered.wait(20)
            opening.cancel()

        await asyncio.sleep(0)  # the loop's queue now has the step that starts the TLS handshake
        loop.call_soon(cancel)
        with pytest.raises(asyncio.CancelledError):
            await opening
        while server.is_alive():
            await asyncio.sleep(0.001)

    server.start()
    with asyncio.Runner(loop_factory=DriverEventLoop) as runner:
        runner.run(cancel_between_two_steps())
    assert not reported
