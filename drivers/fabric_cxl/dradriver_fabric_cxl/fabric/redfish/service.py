"""Resources and collections of a Redfish service."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from dradriver_fabric_cxl.fabric.errors import FabricError, ObjectNotFoundError
from dradriver_fabric_cxl.fabric.objects import CreatedObject
from dradriver_fabric_cxl.fabric.redfish.answers import RedfishAnswer, find_monitor, follow, to_path
from dradriver_fabric_cxl.fabric.redfish.session import RedfishSession

__all__ = ["RedfishResource", "RedfishService", "gather_all"]

_T = TypeVar("_T")
_PARALLEL: Final = 8
_MAX_READ: Final = 4096
_ACCEPTED: Final = 202
_NOT_MODIFIED: Final = 304
_FIRST_FAILURE: Final = 300


@dataclass(frozen=True, slots=True)
class RedfishResource:
    """A resource as it was read.

    Attributes:
        path: path of the resource.
        version: its ETag; "" if it has none.
        body: the JSON object.
    """

    path: str
    version: str
    body: Mapping[str, Any]


async def gather_all(calls: Iterable[Awaitable[_T]]) -> list[_T]:
    """Return the results of calls that run at the same time; the first error cancels the others.

    Args:
        calls: the calls.

    Raises:
        FabricError: the first error of a call.
    """

    async def run(call: Awaitable[_T]) -> _T:
        return await call

    # No `TaskGroup`: before Python 3.13, one whose child fails leaves its caller with a request to cancel it.
    tasks = [asyncio.create_task(run(call)) for call in calls]
    try:
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    errors = [each for each in ended if isinstance(each, Exception)]
    if errors:
        raise next((each for each in errors if isinstance(each, FabricError)), errors[0])
    return [task.result() for task in tasks]


class RedfishService:
    """Reads resources, and only what changed: a resource with an ETag is not transferred again.

    Args:
        session: access to the manager.
    """

    def __init__(self, session: RedfishSession) -> None:
        self.session = session
        self._read: dict[str, RedfishResource] = {}
        self._slots = asyncio.Semaphore(_PARALLEL)

    async def get(self, path: str) -> RedfishResource:
        """Return a resource.

        Args:
            path: path of the resource.

        Raises:
            ObjectNotFoundError: it does not exist.
        """
        known = self._read.get(path)
        headers = {"If-None-Match": known.version} if known is not None else {}
        async with self._slots:
            answer = await self.session.request("GET", path, headers=headers)
        if known is not None and answer.status == _NOT_MODIFIED:
            return known
        self._read.pop(path, None)
        if answer.status >= _FIRST_FAILURE:
            raise self.session.make_error(answer)
        resource = RedfishResource(path, answer.version, answer.body)
        if answer.version:
            self._read[path] = resource
            if len(self._read) > _MAX_READ:
                del self._read[next(iter(self._read))]
        return resource

    async def find(self, path: str) -> RedfishResource | None:
        """Return a resource; None if it does not exist, or if `path` is empty.

        Args:
            path: path of the resource.
        """
        if not path:
            return None
        try:
            return await self.get(path)
        except ObjectNotFoundError:
            return None

    async def list_paths(self, path: str) -> set[str]:
        """Return the paths of the members of a collection.

        Args:
            path: path of the collection; "" or a missing collection has no members.
        """
        paths: set[str] = set()
        page = await self.find(path)
        while page is not None:
            links = page.body.get("Members")
            paths |= {follow(each) for each in links} if isinstance(links, list) else set()
            page = await self.find(to_path(page.body.get("Members@odata.nextLink")))
        return paths - {""}

    async def find_all(self, paths: Iterable[str]) -> list[RedfishResource]:
        """Return resources by path, without those that do not exist.

        Args:
            paths: their paths.
        """
        found = await gather_all(self.find(each) for each in sorted(paths))
        return [each for each in found if each is not None]

    async def members(self, path: str) -> list[RedfishResource]:
        """Return the members of a collection by path, without those that were deleted meanwhile.

        Args:
            path: path of the collection; "" or a missing collection has no members.
        """
        return await self.find_all(await self.list_paths(path))

    async def ask(self, path: str) -> RedfishAnswer:
        """Return the answer to a GET with any status, never from memory.

        Args:
            path: path of a task or of its monitor.
        """
        async with self._slots:
            return await self.session.request("GET", path)

    async def post(self, path: str, body: Mapping[str, Any]) -> CreatedObject:
        """Ask for a new member of a collection.

        If the process dies, the member or its task may exist. Nothing repeats the request.

        Args:
            path: path of the collection.
            body: the JSON object of the member.

        Returns:
            The member for 200, 201 and 204; the task for 202.
        """
        answer = await self.session.request("POST", path, body)
        if answer.status >= _FIRST_FAILURE:
            raise self.session.make_error(answer)
        if answer.status == _ACCEPTED:
            return CreatedObject(task=find_monitor(answer))
        return CreatedObject(path=answer.location or to_path(answer.body.get("@odata.id")))

    async def delete(self, path: str, version: str) -> CreatedObject:
        """Ask for the deletion of a resource, if it still has this version.

        If the process dies, the resource may be gone, or a task may delete it.

        Args:
            path: path of the resource.
            version: its ETag; "" for any.
        """
        answer = await self.session.request("DELETE", path, headers={"If-Match": version} if version else {})
        self._read.pop(path, None)
        if answer.status >= _FIRST_FAILURE:
            raise self.session.make_error(answer)
        return CreatedObject(task=find_monitor(answer) if answer.status == _ACCEPTED else "")
