"""Typed access to the API server."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from inspect import isroutine
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, Self, TypeAlias, TypeVar, cast

import msgspec

from dradriver.errors import DraError, InvalidObjectError, Problem
from dradriver.kube.config.connection import find_connection
from dradriver.kube.errors import ApiError, Gone, NotFound, Unavailable, error_from_status
from dradriver.kube.http.request import MAX_LIST_BYTES, MAX_OBJECT_BYTES, Request, WriteGuard
from dradriver.kube.resources import DRA_GROUP, PODS, Resource
from dradriver.kube.watch_events import (
    TRUNCATED,
    WatchEvent,
    WatchKind,
    read_head,
    split_event,
    split_lines,
    truncate,
)
from dradriver.model.encoding import versions
from dradriver.model.encoding.codec import Value, canonical, decode

if TYPE_CHECKING:
    from dradriver.kube.http.transport import Transport

__all__ = ["Client", "Into", "Listing", "PatchKind"]

T = TypeVar("T")

Into: TypeAlias = type[T] | Callable[[bytes], T]
"""The type of objects, or a function that decodes their JSON text, as `SliceReader.read` does."""


class PatchKind(StrEnum):
    """The content type of a patch. It determines how the server interprets the patch."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """The result of a list: the objects of a collection at one moment.

    Attributes:
        items: the objects that could be decoded.
        resource_version: the version from which a watch must start to miss no change.
        unreadable: the other objects: the error of each, by key.
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


class _Group(Value, frozen=True, kw_only=True):
    versions: list[_Version] = []
    preferred_version: _Version = _Version("")


class _ListedResource(Value, frozen=True, kw_only=True):
    name: str
    kind: str = ""
    namespaced: bool = False


class _ResourceList(Value, frozen=True):
    resources: list[_ListedResource] = []


_LIST_RESTARTS: Final = 3
_TOO_DEEP: Final = Problem("", "is nested too deeply to be read")
_WATCH_SECONDS: Final = (300, 600)
"""Range of the timeout in seconds that a watch requests (as in client-go).

When watches end, clients spread over the servers again.
"""
_WATCH_SLACK: Final = 30.0
_WATCH_KINDS: Final = frozenset(map(str, WatchKind))


class Client:
    """One session with an API server: `async with await Client.connect() as client`.

    The methods take and return values of `dradriver.model`, or of any type that msgspec can decode. `into=dict`
    returns plain Python values, and `into=bytes` returns the JSON text. Callers always see
    `resource.k8s.io/v1`. The client reads once which versions the server serves, and converts objects between
    v1 and the served version. It reads the versions again if the server no longer serves the version in use
    (after a downgrade). While the server serves only versions older than v1, the client also reads them again
    whenever a watch ends, because an upgrade of the server ends every watch. The table in `http.transport`
    lists the requests that are retried.
    """

    def __init__(
        self, transport: "Transport", namespace: str = "default", *, guard: WriteGuard | None = None
    ) -> None:
        self._transport = transport
        self._guard = guard
        self._served = ""
        self._version_lock = asyncio.Lock()
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
        """Return a session with the API server that the configuration names. This call sends no request.

        Args:
            kubeconfig: a kubeconfig file. Default: the first that exists of `$KUBECONFIG`, the pod's service
                account and `~/.kube/config`.
            context: a context of the kubeconfig file. Default: the file's current context.
            user_agent: the client's name in the server's logs.
            timeout: maximum seconds for one call, including retries.

        Raises:
            DraError: there is no usable configuration. The message names the file and the field.
        """
        from dradriver.kube.http.transport import Transport  # noqa: PLC0415 - loads aiohttp

        connection = await find_connection(kubeconfig, context)
        return cls(Transport(connection, user_agent, timeout), connection.namespace)

    @property
    def field_manager(self) -> str:
        """The client's name in `metadata.managedFields`, where the server records which client owns a field."""
        return self._transport.user_agent.partition("/")[0]

    def with_guard(self, guard: WriteGuard) -> "Client":
        """Return a client that uses this session, and whose writes are guarded.

        An attempt that exceeds the time of `guard` raises `Unavailable`. The write may then have been stored,
        or not, so the caller must read the object.

        Args:
            guard: guards each request except GET, and each repetition of the request.
        """
        guarded_client = Client(self._transport, self.namespace, guard=guard)
        guarded_client._served = self._served
        return guarded_client

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
    async def connect_early(self) -> AsyncGenerator[None, None]:
        """Before the first request, open a connection and read the version of the API in the background.

        A failure is not reported here. The first request tries again and raises the error.

        Yields:
            None, immediately.
        """
        task = asyncio.create_task(self.find_version(), name="connect to the API server")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def find_version(self) -> str:
        """Return the version of `resource.k8s.io` that the client uses: the newest that both sides support.

        Raises:
            ApiError: the server did not answer.
            DraError: the server has no version that this project supports.
        """
        if not self._served:
            async with self._version_lock:
                await self._discover_version()
        return self._served

    async def _discover_version(self) -> None:
        if self._served:
            return  # another task has read the version meanwhile
        try:
            data = await self._transport.request(Request("GET", f"/apis/{DRA_GROUP}", repeatable=True))
        except NotFound:
            data = b"{}"
        served_versions = [v.version for v in decode(_Group, data, f"API group {DRA_GROUP}").versions]
        version = versions.best_version(served_versions)
        if version is None:
            raise DraError(
                f"the API server serves {DRA_GROUP} in {', '.join(served_versions) or 'no version'}; "
                f"requires one of {', '.join(versions.VERSIONS)} (Kubernetes 1.32 or newer, DRA enabled)"
            )
        self._served = version

    async def serves(self, resource: Resource) -> bool:
        """Return whether the server serves the resource, in the version of its group that the client uses.

        Args:
            resource: the resource.

        Raises:
            ApiError: the server did not answer.
            DraError: the resource is of `resource.k8s.io`, and the server has no version that this project
                supports.
        """
        versioned = await self._resource_at(resource)
        prefix = "/apis" if versioned.group else "/api"
        path = f"{prefix}/{versioned.api_version}"
        try:
            data = await self._transport.request(Request("GET", path, repeatable=True))
        except NotFound:
            return False
        listed = decode(_ResourceList, data, f"resources of {versioned.api_version}").resources
        return any(each.name == versioned.plural for each in listed)

    async def find_resource(self, group: str, kind: str) -> Resource | None:
        """Return the resource of a kind, in the version that the server prefers; None if there is none.

        Args:
            group: the API group; empty for the core group.
            kind: the kind, such as `ConfigMap`.

        Raises:
            ApiError: the server did not answer.
        """
        try:
            version = "v1"
            if group:
                data = await self._transport.request(Request("GET", f"/apis/{group}", repeatable=True))
                version = decode(_Group, data, f"API group {group}").preferred_version.version
            path = f"/apis/{group}/{version}" if group else f"/api/{version}"
            data = await self._transport.request(Request("GET", path, repeatable=True))
        except NotFound:
            return None
        for each in decode(_ResourceList, data, f"resources of {path}").resources:
            if each.kind == kind and "/" not in each.name:
                return Resource(group, version, each.name, kind, each.namespaced)
        return None

    async def get(self, resource: Resource, name: str, namespace: str = "", *, into: type[T]) -> T:
        """Return one object.

        Args:
            resource: the resource of the object.
            name: `metadata.name`.
            namespace: `metadata.namespace`; empty for a cluster-scoped object.
            into: the type of the result; see the docstring of `Client`.

        Raises:
            NotFound: there is no object with this name.
            ApiError: the request failed for another reason.
            InvalidObjectError: the object does not fit `into`.
        """
        served = await self._resource_at(resource)
        data = await self._send(resource, Request("GET", served.path(namespace, name), repeatable=True))
        return _decode_object(into, resource, served, data)

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        into: Into[T],
        labels: str = "",
        fields: str = "",
        limit: int = 500,
    ) -> Listing[T]:
        """Return all objects of a collection with a consistent read. The objects are read page by page.

        Args:
            resource: the resource to list.
            namespace: the namespace to read; empty: all namespaces.
            into: the type of the objects; see the docstring of `Client`. Or a function that decodes the JSON
                text of an object, and raises InvalidObjectError if it cannot.
            labels: a label selector.
            fields: a field selector.
            limit: number of objects in a page; 0 reads all objects in one page.

        Raises:
            ApiError: the server refused.
        """
        for restart in range(_LIST_RESTARTS):
            # The last attempt reads all objects in one page, so no continue token can expire between pages.
            page = 0 if restart == _LIST_RESTARTS - 1 else limit
            try:
                return await self._list(resource, namespace, into, _query(labels, fields, page))
            except Gone:
                if page == 0:
                    raise
        raise AssertionError("unreachable: the last restart returns or raises")

    async def _list(
        self, resource: Resource, namespace: str, into: Into[T], query: Mapping[str, str]
    ) -> Listing[T]:
        served = await self._resource_at(resource)
        items: list[T] = []
        unreadable: dict[str, DraError] = {}
        token = ""
        while True:
            query = {**query, "continue": token}
            request = Request("GET", served.path(namespace), query, repeatable=True, max_bytes=MAX_LIST_BYTES)
            page = _decode_page(await self._send(resource, request), resource)
            for raw in page.items or ():
                try:
                    items.append(_decode_object(into, resource, served, bytes(raw)))
                except InvalidObjectError as error:
                    unreadable[read_head(raw).key] = error
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

        Args:
            resource: the resource of the object.
            body: the object, or its JSON text. `apiVersion` and `kind` are added if they are missing.
            namespace: the namespace of the object; empty for a cluster-scoped object.
            into: the type of the result; see the docstring of `Client`.
            subresource: a subresource such as `binding`. Empty: the object itself.
            name: the name of the object that has the subresource.
            dry_run: the server validates the object and stores nothing.

        Returns:
            The object as stored. With `dry_run` the object that would be stored, without dropped fields.

        Raises:
            AlreadyExists: an object with this name exists.
            Unavailable: there is no usable answer. If `sent` is True, the object may have been created. Read
                the object before another attempt.
            ApiError: the request failed for another reason.
        """
        served = await self._resource_at(resource)
        request = Request(
            "POST",
            served.path(namespace, name, subresource),
            {"dryRun": "All"} if dry_run else {},
            _encode_object(resource, served, body, add_kind=not subresource),
            repeatable=dry_run,
        )
        return _decode_object(into, resource, served, await self._send(resource, request))

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
        """Replace an object. If `metadata.resourceVersion` is set, it must be the object's current version.

        Args:
            resource: the resource of the object.
            body: the new object, or its JSON text. `apiVersion` and `kind` are added if they are missing.
            namespace: the namespace of the object; empty for a cluster-scoped object.
            into: the type of the result; see the docstring of `Client`.
            name: the name of the object. Default: the name in `body`.
            subresource: a subresource such as `status`. Empty: the object itself.

        Returns:
            The object as stored.

        Raises:
            Conflict: another client changed the object meanwhile.
            ApiError: the request failed for another reason.
        """
        served = await self._resource_at(resource)
        data = _encode_object(resource, served, body, add_kind=True)
        path = served.path(namespace, name or read_head(data).name, subresource)
        request = Request("PUT", path, body=data)
        return _decode_object(into, resource, served, await self._send(resource, request))

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
        """Change parts of an object.

        A JSON patch is sent unchanged. Therefore its paths must not contain fields that differ between versions
        of `resource.k8s.io`: devices of slices and requests of claims.

        Args:
            resource: the resource of the object.
            name: the name of the object.
            namespace: the namespace of the object; empty for a cluster-scoped object.
            body: the patch, or its JSON text.
            kind: the format of the patch.
            into: the type of the result; see the docstring of `Client`.
            subresource: a subresource such as `status`. Empty: the object itself.
            field_manager: the name of the field manager. A server-side apply requires it.
            force: True lets a server-side apply take over fields that other managers own.
            dry_run: the server validates the patch and stores nothing.

        Returns:
            The object as stored. With `dry_run` the object that would be stored, without dropped fields.

        Raises:
            Conflict: a `test` operation fails, the resource version is not current, or another field manager
                owns a field.
            ApiError: the request failed for another reason.
        """
        served = await self._resource_at(resource)
        if kind is PatchKind.JSON:
            data = body if isinstance(body, bytes) else canonical(body)
        else:
            data = _encode_object(resource, served, body, add_kind=kind is PatchKind.APPLY)
        query = {
            "fieldManager": field_manager,
            "force": "true" if force else "",
            "dryRun": "All" if dry_run else "",
        }
        path = served.path(namespace, name, subresource)
        repeatable = dry_run or kind is PatchKind.APPLY
        request = Request("PATCH", path, query, data, str(kind), repeatable=repeatable)
        return _decode_object(into, resource, served, await self._send(resource, request))

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
        """Delete an object.

        Args:
            resource: the resource of the object.
            name: the name of the object.
            namespace: the namespace of the object; empty for a cluster-scoped object.
            uid: the UID that the object must have. Empty: any UID. With a UID, the request can be repeated
                safely: a repetition can't delete a newer object with this name.
            resource_version: the version that the object must have. Empty: any version.
            grace_seconds: `gracePeriodSeconds`. None: the server's default.
            propagation: `propagationPolicy`. Empty: the server's default.

        Returns:
            False if the object did not exist.

        Raises:
            Conflict: the object has another UID than `uid` or another version than `resource_version`.
            ApiError: the request failed for another reason.
        """
        served = await self._resource_at(resource)
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
        path = served.path(namespace, name)
        try:
            await self._send(resource, Request("DELETE", path, body=canonical(options), repeatable=bool(uid)))
        except NotFound:
            return False
        return True

    async def logs(self, pod: str, namespace: str, container: str = "") -> str:
        """Return the output that a container of a pod has written so far.

        Args:
            pod: the pod's name.
            namespace: the pod's namespace.
            container: the container's name. Empty: the only container of the pod.

        Raises:
            NotFound: there is no such pod.
            ApiError: no container has run yet, or the kubelet did not answer.
        """
        path, query = PODS.path(namespace, pod, "log"), {"container": container}
        request = Request("GET", path, query, repeatable=True, max_bytes=MAX_LIST_BYTES)
        return (await self._send(PODS, request)).decode(errors="replace")

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        into: Into[T],
        resource_version: str,
        fields: str = "",
        labels: str = "",
        bookmarks: bool = True,
        on_open: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield the changes after `resource_version`. The server ends this request after some minutes.

        Args:
            resource: the resource to watch.
            namespace: the namespace to read; empty: all namespaces.
            into: see `list`.
            resource_version: the version after which the watch starts. It must come from a list or an earlier
                event.
            fields: a field selector.
            labels: a label selector.
            bookmarks: whether the server may send bookmarks: events that only contain a newer resource version.
            on_open: called when the server has accepted the request.

        Raises:
            Gone: `resource_version` is too old. The caller must list again.
            ApiError: the server refused, or the connection broke.
        """
        served = await self._resource_at(resource)
        seconds = random.randint(*_WATCH_SECONDS)  # noqa: S311 - spreads load
        query = _query(labels, fields, 0) | {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true" if bookmarks else "",
            "timeoutSeconds": str(seconds),
        }
        request = Request("GET", served.path(namespace), query)
        try:
            async with (
                self._transport.stream(request, seconds + _WATCH_SLACK) as chunks,
                aclosing(split_lines(chunks, MAX_OBJECT_BYTES)) as complete,
            ):
                on_open()
                async for line in complete:
                    event = _decode_event(into, resource, served, line)
                    if event is not None:
                        yield event
        except msgspec.DecodeError as error:
            raise Unavailable(f"{request}: invalid event: {error}") from error
        except NotFound as error:
            raise self._explain_not_found(resource, request, error) from error
        finally:
            if self._served != versions.VERSIONS[0]:
                self._served = ""

    async def _resource_at(self, resource: Resource) -> Resource:
        return resource.at_version(await self.find_version()) if resource.group == DRA_GROUP else resource

    async def _send(self, resource: Resource, request: Request) -> bytes:
        try:
            return await self._transport.request(request, None if request.method == "GET" else self._guard)
        except NotFound as error:
            raise self._explain_not_found(resource, request, error) from error

    def _explain_not_found(self, resource: Resource, request: Request, error: NotFound) -> ApiError:
        """Return the error for a 404: the object is missing, or the server no longer serves the API version.

        In the second case the object may exist. If a claim were then treated as missing, it would be unprepared
        while pods use it.
        """
        if resource.group != DRA_GROUP or error.details.name:
            return error
        if request.path.startswith(f"/apis/{DRA_GROUP}/{self._served}/"):
            self._served = ""
        unavailable = Unavailable(f"{request}: the API server no longer serves this version: {error}")
        unavailable.sent = False
        return unavailable


def _query(labels: str, fields: str, limit: int) -> dict[str, str]:
    return {"labelSelector": labels, "fieldSelector": fields, "limit": str(limit) if limit else ""}


def _decode_object(into: Into[T], resource: Resource, served: Resource, data: bytes) -> T:
    """Return an object that the server sent, converted to the version that callers see.

    Raises:
        InvalidObjectError: the object can't be read.
    """
    if TRUNCATED in data:
        raise InvalidObjectError(f"{resource.kind} {read_head(data).key}", [_TOO_DEEP])
    try:
        if served.version != resource.version:
            data = versions.v1_from_older(resource.kind, data, served.version)
        if into is bytes:
            return cast(T, data)
        if into is dict:
            return cast(T, msgspec.json.decode(data))
        return into(data) if isroutine(into) else decode(cast(type[T], into), data)
    except InvalidObjectError as error:
        problems: Sequence[Problem] = error.problems
    except msgspec.DecodeError as error:
        problems = [Problem("", f"not an object of {served.api_version}: {error}")]
    except RecursionError:
        problems = [_TOO_DEEP]
    raise InvalidObjectError(f"{resource.kind} {read_head(data).key}", problems)


def _decode_page(data: bytes, resource: Resource) -> _Page:
    subject = f"list of {resource.plural}"
    try:
        return decode(_Page, data, subject)
    except RecursionError:
        return decode(_Page, truncate(data), subject)


def _encode_object(resource: Resource, served: Resource, body: object, *, add_kind: bool) -> bytes:
    """Return the JSON text to send, in the served version."""
    data = body if isinstance(body, bytes) else canonical(body)
    if add_kind:
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        for key, value in (("apiVersion", resource.api_version), ("kind", resource.kind)):
            fields.setdefault(key, msgspec.Raw(msgspec.json.encode(value)))
        data = msgspec.json.encode(fields, order="sorted")
    if served.version != resource.version:
        data = versions.older_from_v1(resource.kind, data, served.version)
    return data


def _decode_event(into: Into[T], resource: Resource, served: Resource, line: bytes) -> WatchEvent[T] | None:
    """Return the event of one line of a watch, or None for an unknown type of event."""
    kind, data = split_event(line)
    if kind == "ERROR":
        raise error_from_status(data, f"watch of {resource.plural}")
    if kind not in _WATCH_KINDS:
        return None
    head = read_head(data)
    if kind == WatchKind.BOOKMARK:
        return WatchEvent(WatchKind.BOOKMARK, head)
    try:
        return WatchEvent(WatchKind(kind), head, _decode_object(into, resource, served, data))
    except InvalidObjectError as error:
        return WatchEvent(WatchKind(kind), head, None, error)
