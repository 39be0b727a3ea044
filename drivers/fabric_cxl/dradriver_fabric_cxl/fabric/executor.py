"""Executes attach and detach: reads the objects, asks `steps` for the next step, and does it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from dradriver_fabric_cxl.fabric.errors import (
    AnswerLostError,
    AttachFailedError,
    AttachTimedOutError,
    FabricConflictError,
    FabricError,
    ManagerBusyError,
    ManagerUnreachableError,
    NoCapacityError,
    ObjectChangedError,
    ObjectNotFoundError,
    RequestRefusedError,
    TagNotKeptError,
)
from dradriver_fabric_cxl.fabric.objects import (
    CreatedObject,
    FabricObjects,
    ObjectKind,
    RunningTask,
    TaggedObjects,
    TaskOutcome,
    TaskProgress,
)
from dradriver_fabric_cxl.fabric.pace import CallDeadline, FabricPace
from dradriver_fabric_cxl.fabric.steps import (
    AskedRequests,
    AttachStep,
    Blocked,
    CreateObject,
    DeleteObject,
    ExpectObject,
    Finished,
    FollowTask,
    GiveUp,
    WaitForObject,
    next_attach_step,
    next_detach_step,
)
from dradriver_fabric_cxl.fabric.values import AttachRequest, FabricAttachment

__all__ = ["AttachmentExecutor"]

_TRANSIENT: Final = (ManagerBusyError, FabricConflictError, ObjectChangedError, ManagerUnreachableError)
"""Errors after which the objects are read again, until the time is over."""


class AttachmentExecutor:
    """Attaches and detaches over the objects of one manager.

    Args:
        objects: the manager.
        pace: time limits.
    """

    def __init__(self, objects: FabricObjects, pace: FabricPace) -> None:
        self._objects = objects
        self._pace = pace
        self._verified: set[ObjectKind] = set()

    async def attach(self, request: AttachRequest) -> FabricAttachment:
        """See `Fabric.attach`.

        Args:
            request: the allocation, the host, and the memory or accelerator.

        Returns:
            The connected attachment.
        """
        tag = request.identity.tag
        call = _Call(self._pace, f"attachment {tag} to host {request.host}")
        while True:
            try:
                objects = call.combine(await self._objects.read(tag))
                self._verified |= objects.kinds
                step = next_attach_step(objects, request, call.update_expected())
                if isinstance(step, Finished) and step.attachment is not None:
                    return step.attachment
                if isinstance(step, CreateObject) and not call.deadline.expired:
                    await self._create(step, request, call)
                else:
                    await self._do(step, call)
            except _TRANSIENT as error:
                await call.pause_after(error)

    async def detach(self, tag: str) -> None:
        """See `Fabric.detach`.

        Args:
            tag: tag of the attachment.
        """
        call = _Call(self._pace, f"attachment {tag}", creation_share=0.5)
        while True:
            try:
                objects = call.combine(await self._objects.read(tag))
                step = next_detach_step(objects, call.asked)
                if isinstance(step, Finished):
                    return
                await self._do(step, call)
            except _TRANSIENT as error:
                await call.pause_after(error)

    async def _do(self, step: AttachStep, call: "_Call") -> None:
        if isinstance(step, Blocked):
            raise RequestRefusedError(
                f"{call.name}: {step.chunk}: another connection uses the chunk: {step.connection}"
            )
        if isinstance(step, GiveUp):
            reason = call.reason or "the manager made it twice and does not have it"
            # Without any answer, only the manager is known to fail. The object is looked for until the end.
            kind = ManagerUnreachableError if step.lost else AttachFailedError
            raise kind(f"{call.name}: {step.kind.value}: {reason}")
        if isinstance(step, WaitForObject):
            call.last_error = None  # the manager answers, and works on it
        if call.deadline.expired:
            raise call.last_error or AttachTimedOutError(
                f"{call.name}: not finished in {self._pace.attach:g} s"
            )
        if isinstance(step, FollowTask):
            await self._follow(step.task, call)
        elif isinstance(step, DeleteObject):
            await self._delete(step, call)
        elif isinstance(step, WaitForObject | ExpectObject):
            await call.deadline.pause()

    async def _create(self, step: CreateObject, request: AttachRequest, call: "_Call") -> None:
        if step.kind in call.unnamed - self._verified:
            raise TagNotKeptError(
                f"{call.name}: the manager made a {step.kind.value} and returns no tag for it"
            )
        asked = call.asked.created.get(step.kind, 0) + 1
        try:
            if step.kind is ObjectKind.CHUNK:
                created = await _finish(self._objects.create_chunk(request))
            else:
                created = await _finish(self._objects.create_connection(request, step.chunk))
        except AnswerLostError as error:
            call.asked.created[step.kind] = asked
            call.asked.lost[step.kind] = call.asked.lost.get(step.kind, 0) + 1
            call.expect(step.kind)
            call.reason = str(error)
            raise
        call.asked.created[step.kind] = asked
        call.last_error = None
        if created.task:
            call.tasks[created.task] = RunningTask(created.task, request.identity, step.kind)
        else:
            call.expect(step.kind)
            await self._verify(created.path, RunningTask("", request.identity, step.kind), call)

    async def _delete(self, step: DeleteObject, call: "_Call") -> None:
        try:
            answer = await self._objects.delete(step.path, step.version)
        except ObjectNotFoundError:
            return
        call.asked.deleted.add(step.path)
        call.last_error = None
        if answer.task:
            call.tasks[answer.task] = RunningTask(answer.task, None, None)

    async def _follow(self, task: RunningTask, call: "_Call") -> None:
        """Ask for the progress of a task until it ends, or for `pace.look`: its object may exist before."""
        limit = call.limit_of(task)
        until = self._pace.clock() + self._pace.look
        progress = await self._objects.progress(task.path)
        call.last_error = None
        while progress.outcome is TaskOutcome.RUNNING:
            if limit.expired:
                return
            await limit.pause(progress.retry_after)
            if self._pace.clock() >= until:
                return
            progress = await self._objects.progress(task.path)
        if progress.outcome is TaskOutcome.COMPLETED and task.makes is not None:
            call.expect(task.makes)
            await self._verify(progress.path, task, call)
        call.end_task(task, progress)

    async def _verify(self, path: str, task: RunningTask, call: "_Call") -> None:
        """Check the first object of a kind: a manager that does not return its tag would leak objects."""
        if task.makes is None or task.identity is None or task.makes in self._verified:
            return
        if not path:
            call.unnamed.add(task.makes)
        elif await self._objects.keeps_tag(path, task.identity):
            self._verified.add(task.makes)
        else:
            await self._take_back(path, call)
            raise TagNotKeptError(
                f"{call.name}: {path}: the manager does not return the object's name and description"
            )

    async def _take_back(self, path: str, call: "_Call") -> None:
        """Delete an object without a tag by its path, which only this process knows."""
        while not call.deadline.expired:
            try:
                answer: CreatedObject = await self._objects.delete(path, "")
                deletion = RunningTask(answer.task, None, None)
                while answer.task and not call.has_ended(deletion) and not call.deadline.expired:
                    await self._follow(deletion, call)
            except ObjectNotFoundError:
                return
            except _TRANSIENT as error:
                await call.pause_after(error)
            else:
                return


async def _finish(creation: Coroutine[Any, Any, CreatedObject]) -> CreatedObject:
    """Return the answer of a creation, and wait for it even if the caller is canceled.

    The `detach` that follows a canceled `attach` would not see an object that the manager makes later. The time
    limit of one request limits the wait.
    """
    task = asyncio.create_task(creation)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
        if not task.cancelled():
            task.exception()
        raise


class _Call:
    """What one call of attach or detach knows beside the objects."""

    def __init__(self, pace: FabricPace, name: str, creation_share: float = 1) -> None:
        self.name = name
        self.deadline = CallDeadline(pace)
        self.creation_deadline = CallDeadline(pace, creation_share)
        self.asked = AskedRequests()
        self.tasks: dict[str, RunningTask] = {}
        self.unnamed: set[ObjectKind] = set()
        self.reason = ""
        self.last_error: FabricError | None = None  # of the request that did not succeed since
        self._pace = pace
        self._expected: dict[ObjectKind, float] = {}
        self._ended: set[str] = set()
        self._failed_deletions = 0

    def expect(self, kind: ObjectKind) -> None:
        """Record that an object may appear from now on for `pace.appear`."""
        self._expected[kind] = self._pace.clock() + self._pace.appear

    def update_expected(self) -> AskedRequests:
        """Return what was asked for, with the kinds of which an object may still appear now."""
        now = self._pace.clock()
        self.asked.expected = {kind for kind, end in self._expected.items() if now < end}
        return self.asked

    def combine(self, objects: TaggedObjects) -> TaggedObjects:
        """Return the objects with the tasks that still have to be followed."""
        tasks = {task.path: task for task in objects.tasks if task.path not in self._ended} | self.tasks
        followed = tuple(task for task in tasks.values() if not self.limit_of(task).expired)
        return TaggedObjects(objects.chunks, objects.connections, followed)

    def limit_of(self, task: RunningTask) -> CallDeadline:
        """Return until when a task is followed."""
        return self.deadline if task.makes is None else self.creation_deadline

    async def pause_after(self, error: FabricError) -> None:
        """Wait before the objects are read again; raise the error when the time is over."""
        if self.deadline.expired:
            raise error
        self.last_error = error
        await self.deadline.pause(error.retry_after if isinstance(error, ManagerBusyError) else None)

    def has_ended(self, task: RunningTask) -> bool:
        """Return whether a task has ended."""
        return task.path in self._ended

    def end_task(self, task: RunningTask, progress: TaskProgress) -> None:
        """Record that a task ended, and raise if its failure ends the call."""
        self.tasks.pop(task.path, None)
        self._ended.add(task.path)
        if progress.outcome is TaskOutcome.COMPLETED:
            return
        self.reason = str(progress.error or f"task {task.path}: {progress.outcome.value}")
        if isinstance(progress.error, NoCapacityError):
            raise progress.error
        if isinstance(progress.error, FabricConflictError):
            self.asked = AskedRequests()
            raise progress.error
        if task.makes is None:
            self.asked.deleted.clear()
            self._failed_deletions += 1
            if self._failed_deletions > 1:
                raise AttachFailedError(f"{self.name}: {self.reason}")
