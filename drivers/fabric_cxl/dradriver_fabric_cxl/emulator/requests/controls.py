"""Doors for tests, outside of Redfish and without authentication: failures on demand, and health.

| request | effect |
|---|---|
| `POST /emulator/faults` | adds a failure; the JSON object is a `Fault` |
| `DELETE /emulator/faults` | forgets all failures |
| `POST /emulator/health` | sets `Status.Health`: {"path": URI, "health": "OK", "Warning" or "Critical"} |
| `DELETE /emulator/sessions` | ends all sessions |
"""

from typing import Any

import msgspec
from aiohttp import web

from dradriver_fabric_cxl.emulator.faults import Faults
from dradriver_fabric_cxl.emulator.resources.messages import RedfishError
from dradriver_fabric_cxl.emulator.resources.tree import ResourceTree
from dradriver_fabric_cxl.emulator.storage import Storage

__all__ = ["Controls"]


class Controls:
    """Answers the requests of tests."""

    def __init__(self, storage: Storage, tree: ResourceTree, faults: Faults) -> None:
        self._storage, self._tree, self._faults = storage, tree, faults

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Answer a request.

        Raises:
            RedfishError: there is no such request, or it is not valid.
        """
        match request.method, request.path:
            case "POST", "/emulator/faults":
                try:
                    self._faults.add(msgspec.json.decode(await request.read()))
                except ValueError as error:
                    raise RedfishError(400, "GeneralError", str(error)) from error
            case "DELETE", "/emulator/faults":
                self._faults.clear()
            case "POST", "/emulator/health":
                await self._set_health(msgspec.json.decode(await request.read()))
            case "DELETE", "/emulator/sessions":
                await self._end_sessions()
            case _:
                raise RedfishError(
                    404, "ResourceMissingAtURI", f"{request.path} does not exist.", [request.path]
                )
        return web.Response(status=204)

    async def _set_health(self, body: dict[str, Any]) -> None:
        path, health = body.get("path", ""), body.get("health")
        if health not in {"OK", "Warning", "Critical"}:
            raise RedfishError(400, "GeneralError", f"health {health!r}: must be OK, Warning or Critical")
        async with self._storage.change() as state:
            resource = self._tree.read(state, path)
            if resource is None or "Status" not in resource:
                raise RedfishError(404, "ResourceMissingAtURI", f"{path} has no health.", [path])
            state.health[path] = health

    async def _end_sessions(self) -> None:
        async with self._storage.change() as state:
            for path in state.tokens:
                del state.resources[path]
            state.tokens.clear()
