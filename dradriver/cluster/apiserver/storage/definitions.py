"""Custom resource definitions in force: serves their kinds, and deletes the objects of a deleted definition."""

import asyncio

from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.formats.values import Object
from dradriver.cluster.apiserver.kinds.resources import CRDS
from dradriver.cluster.apiserver.requests.deletion import Options, delete
from dradriver.cluster.apiserver.requests.writes import system_update
from dradriver.cluster.apiserver.storage.store import Stored, StoredChange
from dradriver.cluster.apiserver.strategies.custom import served

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class DefinitionController:
    """Keeps the registry in step with the stored definitions."""

    def __init__(self, server: ServerParts) -> None:
        self._server = server
        self._wake = asyncio.Event()
        for stored in server.store.all(CRDS):
            server.registry.define(stored.key[1], served(stored.object))
        # Within the write: a client may use a kind as soon as the write of its definition was answered.
        server.store.listen(self._notice, CRDS)

    def _notice(self, change: StoredChange) -> None:
        rows = served(change.after.object) if change.after is not None else ()
        self._server.registry.define(change.last.key[1], rows)
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        stop = self._server.store.listen(self._object_gone)
        try:
            while True:
                self._wake.clear()
                for stored in self._server.store.all(CRDS):
                    self._settle(stored)
                await self._wake.wait()
        finally:
            stop()

    def _object_gone(self, change: StoredChange) -> None:
        if change.after is None:
            self._wake.set()

    def _settle(self, definition: Stored) -> None:
        metadata = definition.object["metadata"]
        finalizers = metadata.get("finalizers") or []
        if "deletionTimestamp" not in metadata:
            if CLEANUP not in finalizers:
                self._set_finalizers(definition, [*finalizers, CLEANUP])
        elif CLEANUP in finalizers and not self._objects_left(definition):
            self._set_finalizers(definition, [each for each in finalizers if each != CLEANUP])

    def _objects_left(self, definition: Stored) -> int:
        rows = served(definition.object)
        left = 0
        for each in self._server.store.all(rows[0].storage) if rows else ():
            pending = "deletionTimestamp" in each.object["metadata"]
            left += pending or not delete(self._server, rows[0], each, Options()).gone
        return left

    def _set_finalizers(self, definition: Stored, finalizers: list[str]) -> None:
        def change(obj: Object) -> None:
            obj["metadata"]["finalizers"] = finalizers

        system_update(self._server, definition, change)
