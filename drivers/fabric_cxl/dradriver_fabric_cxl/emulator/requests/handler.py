"""Decides what a request of a client does."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec
from aiohttp import web

from dradriver_fabric_cxl.emulator.faults import Fault, Faults
from dradriver_fabric_cxl.emulator.requests.access import Access, Identity
from dradriver_fabric_cxl.emulator.requests.accounts import create_account, delete_account, update_account
from dradriver_fabric_cxl.emulator.requests.answers import AnswerMaker, allowed_methods, answer_json
from dradriver_fabric_cxl.emulator.requests.events import EventService
from dradriver_fabric_cxl.emulator.resources.messages import RedfishError
from dradriver_fabric_cxl.emulator.resources.metadata import make_metadata, make_service_document
from dradriver_fabric_cxl.emulator.resources.paths import (
    ACCOUNTS,
    EVENT_STREAM,
    MONITORS,
    ROOT,
    SESSIONS,
    SUBSCRIPTIONS,
    TASKS,
    parent_of,
)
from dradriver_fabric_cxl.emulator.resources.tree import ResourceTree
from dradriver_fabric_cxl.emulator.settings import Answers, EmulatorSettings
from dradriver_fabric_cxl.emulator.storage import Body, Precondition, State, Storage
from dradriver_fabric_cxl.emulator.work.tasks import TaskService

__all__ = ["RequestHandler"]

_METADATA: Final = f"{ROOT}/$metadata"
_SERVICE_DOCUMENT: Final = f"{ROOT}/odata"
_PUBLIC: Final = {"/redfish", ROOT, _METADATA, _SERVICE_DOCUMENT}
_PRIVILEGES: Final = {
    ACCOUNTS: "ConfigureUsers",
    SESSIONS: "ConfigureManager",
    SUBSCRIPTIONS: "ConfigureManager",
}


class RequestHandler:
    """Answers the requests of Redfish clients."""

    def __init__(
        self,
        settings: EmulatorSettings,
        storage: Storage,
        tree: ResourceTree,
        access: Access,
        tasks: TaskService,
        events: EventService,
        faults: Faults,
        answers: AnswerMaker,
    ) -> None:
        self._settings, self._storage, self._tree, self._access = settings, storage, tree, access
        self._tasks, self._events, self._faults, self._answers = tasks, events, faults, answers

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request.

        Raises:
            RedfishError: it cannot be carried out.
        """
        path = request.path.rstrip("/").removesuffix("/Members")
        if request.headers.get("OData-Version", "4.0") != "4.0":
            raise RedfishError(412, "PreconditionFailed", "Only OData-Version 4.0 is supported.")
        if request.method in {"GET", "HEAD"} and path in _PUBLIC:
            return self._read_public(path)
        if (request.method, path) == ("POST", SESSIONS):
            self._fail_on_demand(request.method, path)
            location, token = await self._access.log_in(await _read_body(request))
            return self._answers.resource(location, 201, {"Location": location, "X-Auth-Token": token})
        identity = await self._access.identify(request.headers)
        fault = self._fail_on_demand(request.method, path)
        response = await self._carry_out(request, path, identity, fault)
        if fault is not None and fault.lose_answer and request.transport is not None:
            request.transport.abort()
        return response

    def _fail_on_demand(self, method: str, path: str) -> Fault | None:
        fault = self._faults.take(method, path)
        if fault is not None and fault.status:
            headers = {"Retry-After": fault.retry_after} if fault.retry_after else {}
            raise RedfishError(fault.status, "GeneralError", "A failure on demand.", headers=headers)
        return fault

    async def _carry_out(
        self, request: web.BaseRequest, path: str, identity: Identity, fault: Fault | None
    ) -> web.StreamResponse:
        if request.method in {"GET", "HEAD"}:
            return await self._read(request, path)
        if not self._tree.exists(self._storage.state, path):
            raise RedfishError(404, "ResourceMissingAtURI", f"{path} does not exist.", [path])
        allowed = allowed_methods(self._tree, path)
        if request.method not in allowed:
            text = f"{request.method} is not allowed on {path}."
            raise RedfishError(405, "OperationNotAllowed", text, headers={"Allow": ", ".join(allowed)})
        self._authorize(path, identity)
        precondition = partial(self._check_unchanged, request.headers, path)
        if self._tasks.accepts(request.method, path):
            body = await _read_body(request) if request.method == "POST" else {}
            return await self._work(request.method, path, body, fault, precondition)
        match request.method:
            case "POST":
                return await self._create(path, await _read_body(request))
            case "PATCH":
                ignored = await update_account(self._storage, path, await _read_body(request), precondition)
                return self._answers.resource(path, extra=ignored)
            case _:
                return await self._delete(path, precondition)

    async def _read(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        if path == EVENT_STREAM:
            return await self._events.stream(request)
        if unsupported := [name for name in request.query if name.startswith("$")]:
            text = f"The query parameter {unsupported[0]} is not supported."
            raise RedfishError(501, "QueryNotSupported", text)
        if parent_of(path) == MONITORS:
            return self._answers.monitor(path)
        response = self._answers.resource(path)
        if response.headers["ETag"] in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=response.headers)
        return response

    def _read_public(self, path: str) -> web.Response:
        match path:
            case "/redfish":
                return answer_json({"v1": f"{ROOT}/"})
            case str() if path == _METADATA:
                text = make_metadata(self._tree.types())
                headers = {"OData-Version": "4.0"}
                return web.Response(text=text, content_type="application/xml", headers=headers)
            case str() if path == _SERVICE_DOCUMENT:
                return answer_json(make_service_document())
            case _:
                return self._answers.resource(path)

    async def _work(
        self, method: str, path: str, body: Body, fault: Fault | None, precondition: Precondition
    ) -> web.Response:
        answers = self._settings.answers
        number = await self._tasks.request(
            method, path, body, fault, precondition, task=answers is Answers.TASK
        )
        if answers is Answers.TASK:
            return self._answers.task(number)
        return self._answers.result(await self._tasks.result(number), answers)

    async def _create(self, path: str, body: Body) -> web.Response:
        if path == ACCOUNTS:
            location = await create_account(self._storage, body)
        else:
            location = await self._events.subscribe(body)
        return self._answers.resource(location, 201, {"Location": location})

    async def _delete(self, path: str, precondition: Precondition) -> web.Response:
        if parent_of(path) == SESSIONS:
            await self._access.end_session(path)
        elif parent_of(path) == ACCOUNTS:
            await delete_account(self._storage, path, precondition)
        else:
            async with self._storage.change() as state:
                precondition(state)
                state.resources.pop(path, None)
        return web.Response(status=204, headers={"OData-Version": "4.0"})

    def _authorize(self, path: str, identity: Identity) -> None:
        stored = self._storage.state.resources.get(path, {})
        own = stored.get("UserName") == identity.user and "ConfigureSelf" in identity.privileges
        collection = path if path in _PRIVILEGES else parent_of(path)
        needed = _PRIVILEGES.get(
            collection, "ConfigureComponents" if collection != TASKS else "ConfigureManager"
        )
        if not own and needed not in identity.privileges:
            text = f"The privilege {needed} is required."
            raise RedfishError(403, "InsufficientPrivilege", text)

    def _check_unchanged(self, headers: Mapping[str, str], path: str, state: State) -> None:
        wanted = headers.get("If-Match", "*")
        body = self._tree.read(state, path)
        if body is None:
            raise RedfishError(404, "ResourceMissingAtURI", f"{path} does not exist.", [path])
        if wanted != "*" and body["@odata.etag"] not in [each.strip() for each in wanted.split(",")]:
            raise RedfishError(412, "PreconditionFailed", f"{path} has changed: its ETag is another one.")


async def _read_body(request: web.BaseRequest) -> dict[str, Any]:
    body = msgspec.json.decode(await request.read())
    if not isinstance(body, dict):
        raise RedfishError(400, "MalformedJSON", "The request must be a JSON object.")
    return body
