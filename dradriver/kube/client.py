"""Typed access to the API server."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar, cast

import msgspec

from dradriver.errors import DraError, InvalidObjectError, Problem
from dradriver.kube.config.connection import find_connection
from dradriver.kube.errors import ApiError, Gone, NotFound, Unavailable, error_from_status
from dradriver.kube.http.request import LONGEST_LIST, LONGEST_OBJECT, Request
from dradriver.kube.resources import DRA_GROUP, PODS, Resource
from dradriver.kube.watching import CUT_OFF, WatchEvent, WatchKind, cut_off, head_of, lines, split_event
from dradriver.model.encoding import versions
from dradriver.model.encoding.codec import Value, canonical, decode

if TYPE_CHECKING:
    from dradriver.kube.http.transport import Transport

__all__ = ["Client", "Listing", "PatchKind"]

T = TypeVar("T")


class PatchKind(StrEnum):
    """How the server interprets a patch, as the patch's content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """The objects of a collection at one moment.

    Attributes:
        items: the objects that can be read.
        resource_version: the version from which a watch continues.
        unreadable: the fault of each other object, by key.
    """

    items: list[T]
    resource_version: str
    unreadable: Mapping[str, DraError] = field(default_factory=dict)


class _ListMeta(Value, frozen=True, kw_only=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(Value, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


class _Version(Value, frozen=True):
    version: str


class _Group(Value, frozen=True):
    versions: list[_Version] = []


_LIST_RESTARTS: Final = 3
_TOO_DEEP: Final = Problem("", "is nested too deeply to be read")
_WATCH_SECONDS: Final = (300, 600)
"""Range of the timeout that a watch requests, so that clients spread over the servers again (as in client-
go).
"""
_WATCH_SLACK: Final = 30.0
_WATCH_KINDS: Final = frozenset(map(str, WatchKind))


class Client:
    """One session with an API server: `async with await Client.connect() as client`.

    The methods take and return values of `dradriver.model`, or of any type that msgspec decodes. `into=dict`
    returns plain builtins and `into=bytes` the JSON text. Callers always see `resource.k8s.io/v1`: the client
    asks the server once for its versions and converts. It asks again when the server no longer serves the
    version (after a downgrade). While the server has only a version older than v1, the client also asks again
    whenever a watch ends, because an upgrade ends every watch. The table in `http.transport` lists the requests
    that are retried.
    """

    def __init__(
        self, transport: "Transport", namespace: str = "default", *, guard: Callable[[], None] = lambda: None
    ) -> None:
        self._transport = transport
        self._guard = guard
        self._served = ""
        self._asking = asyncio.Lock()
        self.namespace = namespace

    @classmethod
    async def connect(
        cls,
        kubeconfig: str | None = None,
        context: str | None = None,
        *,
        user_agent: str = "dradriver",
        timeout: float = 30,
    ) -> Self:
        """Find the API server and return a session. Sends no request.

        Args:
            kubeconfig: a file; else `$KUBECONFIG`, the pod's service account, `~/.kube/config`.
            context: a context of that file, else its current one.
            user_agent: the client's name in the server's logs.
            timeout: seconds for one call, its retries included.

        Raises:
            DraError: there is no usable configuration. The message names the file and the field.
        """
        from dradriver.kube.http.transport import Transport  # noqa: PLC0415 - loads aiohttp

        connection = await find_connection(kubeconfig, context)
        return cls(Transport(connection, user_agent, timeout), connection.namespace)

    @property
    def field_manager(self) -> str:
        """The client's name in `metadata.managedFields`, where the server records the owners of fields."""
        return self._transport.user_agent.partition("/")[0]

    def guarded(self, guard: Callable[[], None]) -> "Client":
        """Return the same session for a process that may write only while `guard` raises no error."""
        made = Client(self._transport, self.namespace, guard=guard)
        made._served = self._served
        return made

    async def close(self) -> None:
        """Close the session."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @asynccontextmanager
    async def connecting(self) -> AsyncGenerator[None, None]:
        """Open a connection and ask for the version in the background, ahead of the first request.

        A failure here is not reported. The first request tries again and raises it.
        """
        task = asyncio.create_task(self.served(), name="connect to the API server")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def served(self) -> str:
        """Return the version of `resource.k8s.io` that the client uses: the best that the server has.

        Raises:
            ApiError: the server did not answer.
            DraError: the server has no version that this project supports.
        """
        if not self._served:
            async with self._asking:
                await self._ask_version()
        return self._served

    async def _ask_version(self) -> None:
        if self._served:
            return  # another task has asked meanwhile
        try:
            data = await self._transport.request(Request("GET", f"/apis/{DRA_GROUP}", repeatable=True))
        except NotFound:
            data = b"{}"
        offered = [v.version for v in decode(_Group, data, f"API group {DRA_GROUP}").versions]
        found = versions.newest(offered)
        if found is None:
            raise DraError(
                f"the API server serves {DRA_GROUP} in {', '.join(offered) or 'no version'}; "
                f"one of {', '.join(versions.VERSIONS)} is needed (Kubernetes 1.32 or newer, DRA enabled)"
            )
        self._served = found

    async def get(self, resource: Resource, name: str, namespace: str = "", *, into: type[T]) -> T:
        """Return one object.

        Raises:
            NotFound: there is no object with that name.
            ApiError: any other refusal.
            InvalidObjectError: the object does not fit `into`.
        """
        at = await self._at(resource)
        data = await self._send(resource, Request("GET", at.path(namespace, name), repeatable=True))
        return _read(into, resource, at, data)

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        into: type[T],
        labels: str = "",
        fields: str = "",
        limit: int = 500,
    ) -> Listing[T]:
        """Return all objects of a collection as of now (a consistent read), fetched page by page.

        Args:
            resource: the resource to list.
            namespace: one namespace; all if empty.
            into: the type of the objects.
            labels: a label selector.
            fields: a field selector.
            limit: objects per page, 0 for all at once.

        Raises:
            ApiError: the server refused.
        """
        for restart in range(_LIST_RESTARTS):
            # The last attempt reads everything in one page, so no continue token can expire midway.
            page = 0 if restart == _LIST_RESTARTS - 1 else limit
            try:
                return await self._list(resource, namespace, into, _query(labels, fields, page))
            except Gone:
                if page == 0:
                    raise
        raise AssertionError("unreachable: the last restart returns or raises")

    async def _list(
        self, resource: Resource, namespace: str, into: type[T], query: Mapping[str, str]
    ) -> Listing[T]:
        at = await self._at(resource)
        items: list[T] = []
        unreadable: dict[str, DraError] = {}
        token = ""
        while True:
            query = {**query, "continue": token}
            request = Request("GET", at.path(namespace), query, repeatable=True, longest=LONGEST_LIST)
            page = _page(await self._send(resource, request), resource)
            for raw in page.items or ():
                try:
                    items.append(_read(into, resource, at, bytes(raw)))
                except InvalidObjectError as error:
                    unreadable[head_of(raw).key] = error
            token = page.metadata.continue_
            if not token:
                return Listing(items, page.metadata.resource_version, unreadable)

    async def create(
        self,
        resource: Resource,
        body: object,
        namespace: str = "",
        *,
        into: type[T],
        subresource: str = "",
        name: str = "",
        dry_run: bool = False,
    ) -> T:
        """Create an object, or post to a subresource of `name` (a pod's `binding`).

        With `dry_run` the server stores nothing and returns the object that it would have stored, without
        dropped fields.

        Raises:
            AlreadyExists: the name is taken.
            Unavailable: with `sent` set, the object may exist nevertheless. Read it before trying again.
            ApiError: any other refusal.
        """
        at = await self._at(resource)
        request = Request(
            "POST",
            at.path(namespace, name, subresource),
            {"dryRun": "All"} if dry_run else {},
            _write(resource, at, body, whole=not subresource),
            repeatable=dry_run,
        )
        return _read(into, resource, at, await self._send(resource, request))

    async def replace(
        self,
        resource: Resource,
        body: object,
        namespace: str = "",
        *,
        into: type[T],
        name: str = "",
        subresource: str = "",
    ) -> T:
        """Replace an object by `body`. If `metadata.resourceVersion` is set, it must be the current one.

        Raises:
            Conflict: another client changed the object meanwhile.
            ApiError: any other refusal.
        """
        at = await self._at(resource)
        data = _write(resource, at, body, whole=True)
        path = at.path(namespace, name or head_of(data).name, subresource)
        return _read(into, resource, at, await self._send(resource, Request("PUT", path, body=data)))

    async def patch(  # noqa: PLR0913 - the API's own choices
        self,
        resource: Resource,
        name: str,
        namespace: str,
        body: object,
        kind: PatchKind,
        *,
        into: type[T],
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> T:
        """Change parts of an object. With `dry_run` the server stores nothing, see `create`.

        A JSON patch is sent unchanged. Its paths must avoid the fields that differ between versions of
        `resource.k8s.io` (devices of slices, requests of claims).

        Raises:
            Conflict: a test, a resource version or another field manager prevents the patch.
            ApiError: any other refusal.
        """
        at = await self._at(resource)
        if kind is PatchKind.JSON:
            data = body if isinstance(body, bytes) else canonical(body)
        else:
            data = _write(resource, at, body, whole=kind is PatchKind.APPLY)
        query = {
            "fieldManager": field_manager,
            "force": "true" if force else "",
            "dryRun": "All" if dry_run else "",
        }
        path = at.path(namespace, name, subresource)
        repeatable = dry_run or kind is PatchKind.APPLY
        request = Request("PATCH", path, query, data, str(kind), repeatable=repeatable)
        return _read(into, resource, at, await self._send(resource, request))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
        propagation: str = "",
    ) -> bool:
        """Delete an object. Return False if it was gone already.

        With `uid` the request is repeatable: a second run can't delete a newer object with the same name.

        Raises:
            Conflict: the object has another UID than `uid` or another version than `resource_version`.
            ApiError: any other refusal.
        """
        at = await self._at(resource)
        preconditions = {
            key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value
        }
        options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions:
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation:
            options["propagationPolicy"] = propagation
        path = at.path(namespace, name)
        try:
            await self._send(resource, Request("DELETE", path, body=canonical(options), repeatable=bool(uid)))
        except NotFound:
            return False
        return True

    async def logs(self, pod: str, namespace: str, container: str = "") -> str:
        """Return the output of a pod's container so far. Without a container name, the pod must have only one.

        Raises:
            NotFound: there is no such pod.
            ApiError: no container has run yet, or the kubelet did not answer.
        """
        query = {"container": container}
        request = Request("GET", PODS.path(namespace, pod, "log"), query, repeatable=True, longest=LONGEST_LIST)
        return (await self._send(PODS, request)).decode(errors="replace")

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        into: type[T],
        resource_version: str,
        fields: str = "",
        labels: str = "",
        bookmarks: bool = True,
        on_open: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield the changes after `resource_version`, in one request that the server ends after minutes.

        Calls `on_open` when the server has accepted the request.

        Raises:
            Gone: `resource_version` is too old; list again.
            ApiError: the server refused, or the connection broke.
        """
        at = await self._at(resource)
        seconds = random.randint(*_WATCH_SECONDS)  # noqa: S311 - spreads load
        query = _query(labels, fields, 0) | {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true" if bookmarks else "",
            "timeoutSeconds": str(seconds),
        }
        request = Request("GET", at.path(namespace), query)
        try:
            async with (
                self._transport.stream(request, seconds + _WATCH_SLACK) as chunks,
                aclosing(lines(chunks, LONGEST_OBJECT)) as complete,
            ):
                on_open()
                async for line in complete:
                    event = _event(into, resource, at, line)
                    if event is not None:
                        yield event
        except msgspec.DecodeError as error:
            raise Unavailable(f"{request}: broken event: {error}") from error
        except NotFound as error:
            raise self._absent(resource, request, error) from error
        finally:
            if self._served != versions.VERSIONS[0]:
                self._served = ""

    async def _at(self, resource: Resource) -> Resource:
        return resource.at(await self.served()) if resource.group == DRA_GROUP else resource

    async def _send(self, resource: Resource, request: Request) -> bytes:
        if request.method != "GET":
            self._guard()
        try:
            return await self._transport.request(request)
        except NotFound as error:
            raise self._absent(resource, request, error) from error

    def _absent(self, resource: Resource, request: Request, error: NotFound) -> ApiError:
        """Return the error for a 404: a missing object, or a server that no longer serves the version in use.

        The second case reveals nothing about the object. To treat it as a missing object would unprepare a
        claim in use.
        """
        if resource.group != DRA_GROUP or error.details.name:
            return error
        if request.path.startswith(f"/apis/{DRA_GROUP}/{self._served}/"):
            self._served = ""
        unavailable = Unavailable(f"{request}: the API server does not serve this version any more: {error}")
        unavailable.sent = False
        return unavailable


def _query(labels: str, fields: str, limit: int) -> dict[str, str]:
    return {"labelSelector": labels, "fieldSelector": fields, "limit": str(limit) if limit else ""}


def _read(into: type[T], resource: Resource, at: Resource, data: bytes) -> T:
    """Return an object that the server sent, converted to the version that callers see.

    Raises:
        InvalidObjectError: the object can't be read.
    """
    if CUT_OFF in data:
        raise InvalidObjectError(f"{resource.kind} {head_of(data).key}", [_TOO_DEEP])
    try:
        if at.version != resource.version:
            data = versions.v1_from_older(resource.kind, data, at.version)
        if into is bytes:
            return cast(T, data)
        if into is dict:
            return cast(T, msgspec.json.decode(data))
        return decode(into, data)
    except InvalidObjectError as error:
        problems: Sequence[Problem] = error.problems
    except msgspec.DecodeError as error:
        problems = [Problem("", f"no object of {at.api_version}: {error}")]
    except RecursionError:
        problems = [_TOO_DEEP]
    raise InvalidObjectError(f"{resource.kind} {head_of(data).key}", problems)


def _page(data: bytes, resource: Resource) -> _Page:
    subject = f"list of {resource.plural}"
    try:
        return decode(_Page, data, subject)
    except RecursionError:
        return decode(_Page, cut_off(data), subject)


def _write(resource: Resource, at: Resource, body: object, *, whole: bool) -> bytes:
    """Return the JSON text to send. Whole objects without a kind get one."""
    data = body if isinstance(body, bytes) else canonical(body)
    if whole:
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        for key, value in (("apiVersion", resource.api_version), ("kind", resource.kind)):
            fields.setdefault(key, msgspec.Raw(msgspec.json.encode(value)))
        data = msgspec.json.encode(fields, order="sorted")
    if at.version != resource.version:
        data = versions.older_from_v1(resource.kind, data, at.version)
    return data


def _event(into: type[T], resource: Resource, at: Resource, line: bytes) -> WatchEvent[T] | None:
    """Return the event of one line of a watch, or None for an unknown type of event."""
    kind, data = split_event(line)
    if kind == "ERROR":
        raise _watch_error(data, resource)
    if kind not in _WATCH_KINDS:
        return None
    head = head_of(data)
    if kind == WatchKind.BOOKMARK:
        return WatchEvent(WatchKind.BOOKMARK, head)
    try:
        return WatchEvent(WatchKind(kind), head, _read(into, resource, at, data))
    except InvalidObjectError as error:
        return WatchEvent(WatchKind(kind), head, None, error)


def _watch_error(data: bytes, resource: Resource) -> ApiError:
    return error_from_status(data, f"watch of {resource.plural}")
