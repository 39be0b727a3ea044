"""The node driver of scratch space: reserves folders for the claims that the controller assigns to this node.

A claim's folder is the node's own record: it exists from the reservation until the controller withdraws the
claim. So a new process continues from the folders that it finds. The mark `UID.used` beside a folder keeps it
while a pod uses it, whatever happens to the node's object.
"""

import asyncio
import json
import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from pathlib import Path

import dradriver as dra
from examples.classic.node_resources.objects import (
    AnsweredClaim,
    AssignedClaim,
    ScratchObjects,
    ScratchStatus,
    connect_scratch,
)

_log = logging.getLogger(__name__)

_GIBIBYTE = 1 << 30
_RETRY_SECONDS = 1.0


class ScratchDriver(dra.Driver):
    """Gives folders to containers.

    Args:
        folder: the folder on the scratch disk. None: `$SCRATCH_FOLDER`.
        connect: connects to the objects of the nodes.
    """

    name = "scratch.example.com"

    def __init__(
        self,
        folder: Path | None = None,
        connect: Callable[[], AbstractAsyncContextManager[ScratchObjects]] = connect_scratch,
    ) -> None:
        self._folder = folder or Path(os.environ.get("SCRATCH_FOLDER", "/var/lib/scratch"))
        self._connect_objects = connect
        self._stack = AsyncExitStack()
        self._objects: ScratchObjects | None = None

    async def discover(self) -> list[dra.Device]:
        """Answer the controller, and return no device: the space is in no slice.

        The SDK calls it at start, regularly, and after each change of this node's object.
        """
        if self._objects is None:
            self._objects = await self._stack.enter_async_context(self._connect_objects())
            follower = asyncio.create_task(self._follow(self._objects), name="changes of NodeScratch")
            self._stack.push_async_callback(cancel, follower)
        await self._answer(self._objects)
        return []

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        """Mount the folder that the handle of the allocation names."""
        self._mark(claim.uid).touch()
        return {device: make_edits(json.loads(device.handle or b"{}")["path"]) for device in claim.devices}

    def unprepare(self, claim: dra.Claim) -> None:
        """Let the folder go: it is removed when the controller has withdrawn the claim."""
        self._mark(claim.uid).unlink(missing_ok=True)
        self.rediscover()

    async def shutdown(self) -> None:
        await self._stack.aclose()

    async def _answer(self, objects: ScratchObjects) -> None:
        """Remove the folders of withdrawn claims, reserve those of new ones, and write both into the status."""
        scratch = await objects.read(self.node_name) or await objects.create(self.node_name)
        await asyncio.to_thread(self._free, scratch.assigned)
        answers = [await asyncio.to_thread(self._reserve, each) for each in scratch.spec.claims]
        answers += [each for each in self._list_used() if each.uid not in scratch.assigned]
        total = await asyncio.to_thread(lambda: shutil.disk_usage(self._folder).total // _GIBIBYTE)
        status = ScratchStatus(gibibytes=total, claims=tuple(answers))
        if status != scratch.status:
            await objects.answer(self.node_name, status)

    def _free(self, assigned: Collection[str]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._folder.iterdir():
            if path.is_dir() and path.name not in assigned and not self._mark(path.name).exists():
                shutil.rmtree(path)

    def _reserve(self, claim: AssignedClaim) -> AnsweredClaim:
        """Return the claim's folder, or why the node refuses: only the node knows what else is on the disk."""
        path = self._folder / claim.uid
        free = shutil.disk_usage(self._folder).free // _GIBIBYTE
        if not path.exists() and free < claim.gibibytes:
            reason = f"the disk has {free} GiB left, {claim.gibibytes} are needed"
            return AnsweredClaim(uid=claim.uid, refused=reason)
        path.mkdir(exist_ok=True)
        return AnsweredClaim(uid=claim.uid, path=str(path))

    def _list_used(self) -> Iterator[AnsweredClaim]:
        """Yield the folders that pods use."""
        for mark in self._folder.glob("*.used"):
            yield AnsweredClaim(uid=mark.stem, path=str(self._folder / mark.stem))

    def _mark(self, uid: str) -> Path:
        return self._folder / f"{uid}.used"

    async def _follow(self, objects: ScratchObjects) -> None:
        while True:
            try:
                async with aclosing(objects.changes(self.node_name)) as changes:
                    async for _ in changes:
                        self.rediscover()
            except Exception as error:  # the API server is away
                _log.warning("changes of NodeScratch %s are not seen: %s", self.node_name, error)
                await asyncio.sleep(_RETRY_SECONDS)


def make_edits(path: str) -> dra.ContainerEdits:
    return dra.ContainerEdits(env={"SCRATCH": "/scratch"}, mounts=[dra.Mount(path, "/scratch", ["rw", "bind"])])


async def cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


if __name__ == "__main__":
    dra.run(ScratchDriver)
