"""The fabric as this process uses it: opened once, read with the reports of nodes, and followed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from typing import Final

import dradriver as dra
from dradriver_fabric_cxl.fabric import (
    AttachRequest,
    Fabric,
    FabricAttachment,
    FabricError,
    NoCapacityError,
    TagNotKeptError,
)
from dradriver_fabric_cxl.offer import FabricLayout, OfferRules

__all__ = ["FabricAccess"]

_log: Final = logging.getLogger(__name__)

_DETACH_SECONDS: Final = 60.0
"""Maximum time that an attachment waits for the memory of running detachments."""
_LOOK_SECONDS: Final = (0.5, 10.0)
"""First and largest time after which reports of nodes are read again, if there are none; it doubles."""


class FabricAccess:
    """One fabric, for everything in this process that attaches to it or detaches from it.

    Args:
        open_fabric: opens the fabric. It is called once; if the opening fails, the next call tries again.
        rules: the operator's choices for the pool.
        node_reports: reads the reports of the nodes.
        rediscover: called after changes of the fabric.

    Attributes:
        unusable: why nothing can be attached until the process is restarted: the manager does not keep the tags
            of objects, so the driver could not find again what it attaches. Empty otherwise.
    """

    def __init__(
        self,
        open_fabric: Callable[[], AbstractAsyncContextManager[Fabric]],
        rules: OfferRules,
        node_reports: Callable[[], Awaitable[Mapping[str, dra.NodeReport]]],
        rediscover: Callable[[], None],
    ) -> None:
        self.unusable = ""
        self._open_fabric = open_fabric
        self._rules = rules
        self._node_reports = node_reports
        self._rediscover = rediscover
        self._stack = AsyncExitStack()
        self._fabric: Fabric | None = None
        self._opening_lock = asyncio.Lock()
        self._layout: FabricLayout | None = None
        self._detaching: set[asyncio.Future[None]] = set()
        self._logged: frozenset[str] = frozenset()
        self._next_look = _LOOK_SECONDS[0]

    @property
    def layout(self) -> FabricLayout | None:
        """The layout as it was last read; None before the first read."""
        return self._layout

    async def get_layout(self) -> FabricLayout:
        """Return the layout as it was last read; read it if it was never read."""
        return self._layout or await self.read_layout()

    async def read_layout(self) -> FabricLayout:
        """Return the layout of the fabric and its nodes as they are now.

        Raises:
            DraError: the manager or the API server does not answer.
        """
        fabric = await self._get_fabric()
        reports = await self._node_reports()
        if not reports and self._next_look < _LOOK_SECONDS[1]:  # the nodes' drivers may be starting
            asyncio.get_running_loop().call_later(self._next_look, self._rediscover)
            self._next_look *= 2
        # Attachments are read first: whatever is made meanwhile is in the inventory as a chunk.
        attachments = await fabric.attachments()
        layout = FabricLayout(await fabric.inventory(), reports, self._rules, attachments)
        for problem in layout.problems:
            if problem not in self._logged:
                _log.warning("%s", problem)
        self._logged = frozenset(layout.problems)
        self._layout = layout
        return layout

    async def attachments(self) -> tuple[FabricAttachment, ...]:
        """Return everything with a tag that the fabric has now; see `Fabric.attachments`."""
        return await (await self._get_fabric()).attachments()

    async def attach(self, request: AttachRequest) -> FabricAttachment:
        """Attach; if there is no room, wait for the detachments that run, and try once more.

        Args:
            request: what to attach, and to which host.

        Raises:
            FabricError: in the cases of `Fabric.attach`.
        """
        fabric = await self._get_fabric()
        detaching = set(self._detaching)
        try:
            try:
                return await fabric.attach(request)
            except NoCapacityError:
                if not detaching:
                    raise
            await asyncio.wait(detaching, timeout=_DETACH_SECONDS)
            return await fabric.attach(request)
        except FabricError as error:
            if isinstance(error, TagNotKeptError):
                self.unusable = str(error)
                _log.error("nothing is handed out any more, because the manager keeps no tags: %s", error)
            self._rediscover()  # the failure may have changed the room or the health of the fabric
            raise

    async def detach(self, tag: str) -> None:
        """Remove everything that the manager has under a tag; a no-op if there is nothing.

        Args:
            tag: tag of the attachment.

        Raises:
            FabricError: in the cases of `Fabric.detach`.
        """
        fabric = await self._get_fabric()
        ended = asyncio.get_running_loop().create_future()
        self._detaching.add(ended)
        try:
            await fabric.detach(tag)
        finally:
            self._detaching.discard(ended)
            ended.set_result(None)

    async def close(self) -> None:
        """Close the fabric. Everything stays attached."""
        await self._stack.aclose()

    async def _get_fabric(self) -> Fabric:
        async with self._opening_lock:
            if self._fabric is None:
                fabric = await self._stack.enter_async_context(self._open_fabric())
                follower = asyncio.create_task(self._follow(fabric), name="changes of the fabric")
                self._stack.push_async_callback(_cancel, follower)
                self._fabric = fabric
            return self._fabric

    async def _follow(self, fabric: Fabric) -> None:
        try:
            async with aclosing(fabric.changes()) as changes:
                async for _ in changes:
                    self._rediscover()
        except Exception:
            # The fabric is still read every `rescan_seconds`.
            _log.exception("changes of the fabric are not followed any more")


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
