"""The HTTPS server of the emulator.

It has no router: a Redfish service has one tree of resources, and the type of a resource decides what a method
does.
"""

import asyncio
import ssl
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMethod

from dradriver_fabric_cxl.emulator.faults import Faults
from dradriver_fabric_cxl.emulator.hooks import HardwareHook, NoHook
from dradriver_fabric_cxl.emulator.requests.access import Access
from dradriver_fabric_cxl.emulator.requests.answers import AnswerMaker, answer_error
from dradriver_fabric_cxl.emulator.requests.controls import Controls
from dradriver_fabric_cxl.emulator.requests.events import EventService
from dradriver_fabric_cxl.emulator.requests.handler import RequestHandler
from dradriver_fabric_cxl.emulator.resources.messages import RedfishError
from dradriver_fabric_cxl.emulator.resources.tree import ResourceTree
from dradriver_fabric_cxl.emulator.settings import EmulatorSettings
from dradriver_fabric_cxl.emulator.storage import Storage
from dradriver_fabric_cxl.emulator.work.tasks import TaskService

__all__ = ["Emulator"]

_SHUTDOWN_SECONDS: Final = 1.0


class Emulator:
    """An emulated fabric manager on 127.0.0.1.

    Args:
        settings: the fabric, and how its manager answers.
        state_file: file of the state; None: the state is lost with the process.
        certificate: certificate in a PEM file.
        key: private key in a PEM file.
        user: name of the first administrator.
        password: password of the first administrator.
        hook: the hardware.
    """

    def __init__(
        self,
        settings: EmulatorSettings,
        *,
        state_file: Path | None,
        certificate: Path,
        key: Path,
        user: str,
        password: str,
        hook: HardwareHook | None = None,
    ) -> None:
        self._files = certificate, key
        self._storage = Storage(state_file)
        self._tree = ResourceTree(settings)
        self._access = Access(self._storage, user, password, settings.session_seconds)
        self._tasks = TaskService(settings, self._storage, self._tree, hook or NoHook())
        self._events = EventService(self._storage)
        faults = Faults()
        self._controls = Controls(self._storage, self._tree, faults)
        answers = AnswerMaker(settings, self._storage, self._tree)
        self._requests = RequestHandler(
            settings, self._storage, self._tree, self._access, self._tasks, self._events, faults, answers
        )
        self._runner: web.ServerRunner | None = None

    async def start(self, port: int = 0) -> str:
        """Read the state, continue interrupted work, and listen.

        Args:
            port: the port; 0: any free one.

        Returns:
            URL of the service.
        """
        await self._storage.load()
        await self._access.start()
        await self._events.start()
        await self._tasks.resume()
        context = await asyncio.to_thread(_make_context, *self._files)
        self._runner = web.ServerRunner(_Server(self._answer), shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, ssl_context=context)
        await site.start()
        return f"https://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Close all connections, and interrupt running work; it continues after the next start."""
        await self._events.stop()
        if self._runner is not None:
            await self._runner.cleanup()
        await self._tasks.stop()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            if request.path.startswith("/emulator/"):
                return await self._controls.handle(request)
            return await self._requests.handle(request)
        except RedfishError as error:
            return answer_error(error)
        except msgspec.DecodeError:
            return answer_error(RedfishError(400, "MalformedJSON", "The request is not valid JSON."))


def _make_context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


class _Server(web.Server):
    """Answers methods that HTTP does not have, which the HTTP parser rejects."""

    def __call__(self) -> web.RequestHandler:
        return _Protocol(self, loop=asyncio.get_running_loop())


class _Protocol(web.RequestHandler):
    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return 501 for a method that is not known, as DSP0266 requires, and not 400."""
        if isinstance(exc, BadHttpMethod):
            response = answer_error(RedfishError(501, "OperationNotAllowed", "The method is not known."))
            response.force_close()
            return response
        return super().handle_error(request, status, exc, message)
