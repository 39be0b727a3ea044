"""A fabric behind a Redfish manager, with the interface of `Fabric`."""

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from dradriver_fabric_cxl.fabric.errors import FabricError
from dradriver_fabric_cxl.fabric.executor import AttachmentExecutor
from dradriver_fabric_cxl.fabric.hardware import Fabric
from dradriver_fabric_cxl.fabric.pace import FabricPace
from dradriver_fabric_cxl.fabric.redfish.credentials import CredentialFiles
from dradriver_fabric_cxl.fabric.redfish.events import read_events
from dradriver_fabric_cxl.fabric.redfish.objects import RedfishObjects
from dradriver_fabric_cxl.fabric.redfish.service import RedfishService
from dradriver_fabric_cxl.fabric.redfish.session import RedfishSession
from dradriver_fabric_cxl.fabric.redfish.tree import RedfishTree
from dradriver_fabric_cxl.fabric.steps import list_attachments
from dradriver_fabric_cxl.fabric.values import AttachRequest, FabricAttachment, FabricInventory

__all__ = ["RedfishFabric", "RedfishSettings", "open_redfish"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RedfishSettings:
    """How to reach a manager.

    Attributes:
        url: `https://HOST:PORT`.
        credentials: files with user and password.
        ca: file with the certificates that sign the manager's; None: those of the system.
        fabric: ID of the fabric; "" for the only CXL fabric.
        pace: time limits.
    """

    url: str
    credentials: CredentialFiles
    ca: Path | None = None
    fabric: str = ""
    pace: FabricPace = field(default_factory=FabricPace)


class RedfishFabric(Fabric):
    """One fabric of a Redfish manager. See `Fabric`. `open_redfish` makes it.

    Args:
        session: access to the manager.
        settings: how to reach it.
    """

    def __init__(self, session: RedfishSession, settings: RedfishSettings) -> None:
        self._session = session
        self._pace = settings.pace
        service = RedfishService(session)
        self._tree = RedfishTree(service, settings.fabric)
        self._objects = RedfishObjects(service, self._tree)
        self._executor = AttachmentExecutor(self._objects, settings.pace)

    async def inventory(self) -> FabricInventory:
        """See `Fabric`."""
        return await self._tree.read()

    async def attach(self, request: AttachRequest) -> FabricAttachment:
        """See `Fabric`."""
        return await self._executor.attach(request)

    async def detach(self, tag: str) -> None:
        """See `Fabric`."""
        await self._executor.detach(tag)

    async def attachments(self) -> tuple[FabricAttachment, ...]:
        """See `Fabric`."""
        return list_attachments(await self._objects.read(None))

    async def changes(self) -> AsyncGenerator[None, None]:
        """See `Fabric`."""
        yield
        reported = ""
        while True:
            try:
                path = (await self._tree.paths()).events
                changes = self._read_events(path) if path else self._look()
                async with aclosing(changes):
                    async for _ in changes:
                        yield
            except FabricError as error:
                level = logging.DEBUG if str(error) == reported else logging.WARNING
                reported = str(error)
                _log.log(level, "changes of the fabric are not received", extra={"error": reported})
            await self._pace.sleep(self._pace.poll)

    async def _read_events(self, path: str) -> AsyncGenerator[None, None]:
        async with aclosing(read_events(self._session, path, self._pace)) as events:
            async for _ in events:
                yield

    async def _look(self) -> AsyncGenerator[None, None]:
        """Yield when something is different from the last look, for a manager without events."""
        seen = await self._tree.read(), await self.attachments()
        while True:
            await self._pace.sleep(self._pace.look)
            now = await self._tree.read(), await self.attachments()
            if now != seen:
                seen = now
                yield


@asynccontextmanager
async def open_redfish(settings: RedfishSettings) -> AsyncIterator[RedfishFabric]:
    """Yield a fabric behind a manager; at the end, end the session.

    Nothing is sent before the first call. If the process dies, the manager ends the unused session by itself.

    Args:
        settings: how to reach the manager.

    Raises:
        FabricError: the URL is not https, or the CA file cannot be read.
    """
    if not settings.url.startswith("https://"):
        raise FabricError(f"{settings.url}: must begin with https://: the password would be readable")
    try:
        context = await asyncio.to_thread(ssl.create_default_context, cafile=settings.ca)
    except (OSError, ssl.SSLError) as error:
        raise FabricError(f"{settings.ca}: the CA file cannot be read: {error}") from error
    connector = aiohttp.TCPConnector(ssl=context)
    # The token is a header of the session's own; cookies are not a way to log in here.
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as http:
        session = RedfishSession(settings.url, http, settings.credentials, settings.pace)
        try:
            yield RedfishFabric(session, settings)
        finally:
            await session.close()
