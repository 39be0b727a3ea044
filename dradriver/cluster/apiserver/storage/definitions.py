"""Serves the kinds of custom resource definitions, and deletes the objects of a deleted definition."""

from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.formats.values import Object
from dradriver.cluster.apiserver.kinds.resources import CRDS
from dradriver.cluster.apiserver.requests.deletion import DeleteOptions, delete
from dradriver.cluster.apiserver.requests.writes import update_as_system
from dradriver.cluster.apiserver.storage.state_controller import StateController
from dradriver.cluster.apiserver.storage.store import Stored, StoredChange
from dradriver.cluster.apiserver.strategies.custom import list_served

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class DefinitionController(StateController):
    """Updates the registry after each change of the stored definitions."""

    def __init__(self, server: ServerParts) -> None:
        super().__init__(server)
        for stored in server.store.all(CRDS):
            server.registry.define(stored.key[1], list_served(stored.object))
        # The registry is updated during the write, because a client may use a kind as soon as the write of its
        # definition is answered.
        server.store.listen(self._define, CRDS)

    def _define(self, change: StoredChange) -> None:
        rows = list_served(change.after.object) if change.after is not None else ()
        self._server.registry.define(change.last.key[1], rows)
        self._wake.set()

    def _is_relevant(self, change: StoredChange) -> bool:
        return change.after is None

    def _reconcile(self) -> None:
        for stored in self._server.store.all(CRDS):
            self._update_finalizer(stored)

    def _update_finalizer(self, definition: Stored) -> None:
        metadata = definition.object["metadata"]
        finalizers = metadata.get("finalizers") or []
        if "deletionTimestamp" not in metadata:
            if CLEANUP not in finalizers:
                self._set_finalizers(definition, [*finalizers, CLEANUP])
        elif CLEANUP in finalizers and not self._delete_objects(definition):
            self._set_finalizers(definition, [each for each in finalizers if each != CLEANUP])

    def _delete_objects(self, definition: Stored) -> int:
        rows = list_served(definition.object)
        remaining = 0
        for each in self._server.store.all(rows[0].storage) if rows else ():
            pending = "deletionTimestamp" in each.object["metadata"]
            remaining += pending or not delete(self._server, rows[0], each, DeleteOptions()).gone
        return remaining

    def _set_finalizers(self, definition: Stored, finalizers: list[str]) -> None:
        def change(obj: Object) -> None:
            obj["metadata"]["finalizers"] = finalizers

        update_as_system(self._server, definition, change)
