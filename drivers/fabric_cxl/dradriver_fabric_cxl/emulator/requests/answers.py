"""Makes HTTP responses of resources, results and errors."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from dradriver_fabric_cxl.emulator.resources.messages import RedfishError, describe_error
from dradriver_fabric_cxl.emulator.resources.paths import MONITORS, TASKS, last_part
from dradriver_fabric_cxl.emulator.resources.tree import ResourceTree
from dradriver_fabric_cxl.emulator.settings import Answers, EmulatorSettings
from dradriver_fabric_cxl.emulator.storage import Body, Operation, Storage

__all__ = ["AnswerMaker", "answer_error", "answer_json"]

_HEADERS: Final = {"OData-Version": "4.0", "Cache-Control": "no-cache"}
_SCHEMAS: Final = "http://redfish.dmtf.org/schemas/v1"


def answer_json(
    body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return a response with a JSON object."""
    return web.Response(
        status=status,
        body=msgspec.json.encode(body),
        content_type="application/json",
        headers=_HEADERS | dict(headers or {}),
    )


def answer_error(error: RedfishError) -> web.Response:
    """Return the response of a request that failed."""
    return answer_json(error.body(), error.status, error.headers)


class AnswerMaker:
    """Makes the responses that contain resources."""

    def __init__(self, settings: EmulatorSettings, storage: Storage, tree: ResourceTree) -> None:
        self._settings, self._storage, self._tree = settings, storage, tree

    def resource(
        self, path: str, status: int = 200, headers: Mapping[str, str] | None = None, extra: Body | None = None
    ) -> web.Response:
        """Return a resource with its headers.

        Args:
            path: its URI.
            status: HTTP status.
            headers: further headers.
            extra: annotations that are added to the resource.

        Raises:
            RedfishError: 404: it does not exist.
        """
        body = self._tree.read(self._storage.state, path)
        if body is None:
            raise RedfishError(404, "ResourceMissingAtURI", f"{path} does not exist.", [path])
        schema = body["@odata.type"].removeprefix("#").rpartition(".")[0]
        described = {
            "Link": f"<{_SCHEMAS}/{schema}.json>; rel=describedby",
            "Allow": ", ".join(allowed_methods(self._tree, path)),
            "ETag": body["@odata.etag"],
        }
        return answer_json(body | (extra or {}), status, described | dict(headers or {}))

    def task(self, number: str) -> web.Response:
        """Return 202 with a task; a lost task has only its URI."""
        headers = {"Location": f"{MONITORS}/{number}", "Retry-After": self._settings.retry_after}
        if not self._tree.exists(self._storage.state, f"{TASKS}/{number}"):
            return answer_json({"@odata.id": f"{TASKS}/{number}"}, 202, headers)
        return self.resource(f"{TASKS}/{number}", 202, headers)

    def monitor(self, path: str) -> web.Response:
        """Return what the task monitor of an operation returns.

        Raises:
            RedfishError: 404: there is no such monitor, or its task is lost.
        """
        number = last_part(path)
        operation = self._storage.state.operations.get(number)
        if operation is None or not self._tree.exists(self._storage.state, f"{TASKS}/{number}"):
            raise RedfishError(404, "ResourceMissingAtURI", f"{path} does not exist.", [path])
        if not operation.ended:
            return self.task(number)
        return self.result(operation, Answers.CREATED)

    def result(self, operation: Operation, answers: Answers) -> web.Response:
        """Return the result of an operation that is over.

        Args:
            operation: the operation.
            answers: how the manager answers.
        """
        if operation.error:
            return answer_json(describe_error(operation.message, operation.error), operation.status)
        if operation.method == "DELETE":
            return web.Response(status=200 if answers is Answers.OK else 204, headers=_HEADERS)
        if answers is Answers.NO_CONTENT:
            return web.Response(status=204, headers=_HEADERS | {"Location": operation.location})
        if not self._tree.exists(self._storage.state, operation.location):
            text = f"{operation.location} was deleted meanwhile."
            return answer_json(describe_error("ResourceMissingAtURI", text), 404)
        if answers is Answers.OK:
            return self.resource(operation.location)
        return self.resource(operation.location, 201, {"Location": operation.location})


def allowed_methods(tree: ResourceTree, path: str) -> list[str]:
    """Return the HTTP methods of a resource."""
    collection, _, _ = path.rpartition("/")
    names = {
        "Connections": ["DELETE"],
        "MemoryChunks": ["DELETE"],
        "Sessions": ["DELETE"],
        "Subscriptions": ["DELETE"],
        "Tasks": ["DELETE"],
        "Accounts": ["PATCH", "DELETE"],
    }
    if tree.is_collection(path):
        made = last_part(path) in names and last_part(path) != "Tasks"
        return ["GET", "HEAD", *(["POST"] if made else [])]
    return ["GET", "HEAD", *names.get(last_part(collection), [])]
