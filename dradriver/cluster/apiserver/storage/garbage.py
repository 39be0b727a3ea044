"""Garbage collection by owners: dependents are deleted when the last of their owners is gone.

A delete has one of three policies. `Background`: dependents are deleted after their owner. `Foreground`: the
owner stays until the dependents that block it are deleted. `Orphan`: dependents stay, and only their reference
to the owner is removed.
"""

import asyncio

from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.formats.values import Object
from dradriver.cluster.apiserver.kinds.resources import ServedResource
from dradriver.cluster.apiserver.requests.deletion import FOREGROUND, ORPHAN, DeleteOptions, delete
from dradriver.cluster.apiserver.requests.writes import update_as_system
from dradriver.cluster.apiserver.storage.store import Stored, StoredChange


def list_owners(stored: Stored) -> list[Object]:
    """Return the owner references of an object."""
    return list(stored.object["metadata"].get("ownerReferences") or ())


class GarbageCollector:
    """Deletes objects whose owners are all gone.

    It keeps an index of dependents by the UIDs of their owners, which it rebuilds at start. If an object or one
    of its owners changes, it checks the object again.
    """

    def __init__(self, server: ServerParts) -> None:
        self._server = server
        self._dependents: dict[str, dict[tuple[str, str, str], None]] = {}
        self._uids: dict[str, tuple[str, str, str]] = {}
        self._queue: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue()

    async def run(self) -> None:
        """Run until cancelled."""
        stop = self._server.store.listen(self._on_change)
        try:
            for resource in self._server.registry.preferred():
                for stored in self._server.store.all(resource.storage):
                    self._index(stored)
                    self._queue.put_nowait((stored.storage, *stored.key))
            while True:
                self._check(*await self._queue.get())
        finally:
            stop()

    def _on_change(self, change: StoredChange) -> None:
        uid = change.last.object["metadata"]["uid"]
        key = (change.last.storage, *change.last.key)
        if change.after is not None:
            self._index(change.after)
            metadata = change.after.object["metadata"]
            if list_owners(change.after) or "deletionTimestamp" in metadata:
                self._queue.put_nowait(key)
            return
        self._uids.pop(uid, None)
        for dependent in self._dependents.pop(uid, {}):
            self._queue.put_nowait(dependent)
        for owner in list_owners(change.last):
            dependents = self._dependents.get(owner["uid"], {})
            dependents.pop(key, None)
            if not dependents:
                self._dependents.pop(owner["uid"], None)
            if owner["uid"] in self._uids:
                self._queue.put_nowait(self._uids[owner["uid"]])

    def _index(self, stored: Stored) -> None:
        key = (stored.storage, *stored.key)
        self._uids[stored.object["metadata"]["uid"]] = key
        for owner in list_owners(stored):
            self._dependents.setdefault(owner["uid"], {})[key] = None

    def _check(self, storage: str, namespace: str, name: str) -> None:
        stored = self._server.store.get(storage, namespace, name)
        resource = self._find_resource(storage)
        if stored is None or resource is None:
            return
        finalizers = stored.object["metadata"].get("finalizers") or []
        if "deletionTimestamp" in stored.object["metadata"]:
            if ORPHAN in finalizers:
                self._orphan_dependents(stored)
            elif FOREGROUND in finalizers:
                self._delete_in_foreground(stored)
        elif list_owners(stored):
            self._collect(resource, stored)

    def _find_resource(self, storage: str) -> ServedResource | None:
        return next((each for each in self._server.registry.preferred() if each.storage == storage), None)

    def _find_owner(self, dependent: Stored, reference: Object) -> Stored | None:
        """Return the owner that a reference names, if it exists with the UID of the reference."""
        resource = self._server.registry.by_kind(reference["apiVersion"], reference["kind"])
        if resource is None:
            return None
        namespace = dependent.key[0] if resource.namespaced else ""
        owner = self._server.store.get(resource.storage, namespace, reference["name"])
        return owner if owner is not None and owner.object["metadata"]["uid"] == reference["uid"] else None

    def _is_unknown_kind(self, reference: Object) -> bool:
        return self._server.registry.by_kind(reference["apiVersion"], reference["kind"]) is None

    def _collect(self, resource: ServedResource, stored: Stored) -> None:
        references = list_owners(stored)
        found = [(each, self._find_owner(stored, each)) for each in references]
        waiting = [owner for _, owner in found if owner is not None and _is_deleted_in_foreground(owner)]
        # If the owner's kind is not served, its existence is unknown. In this case, the owner counts as
        # existing.
        remaining = [
            reference
            for reference, owner in found
            if self._is_unknown_kind(reference) or (owner is not None and not _is_deleted_in_foreground(owner))
        ]
        if remaining:
            if len(remaining) < len(references):
                self._set_owners(stored, remaining)
            return
        policy = (
            "Foreground" if waiting and self._dependents.get(stored.object["metadata"]["uid"]) else "Background"
        )
        delete(
            self._server,
            resource,
            stored,
            DeleteOptions(propagation=policy, uid=stored.object["metadata"]["uid"]),
        )

    def _orphan_dependents(self, owner: Stored) -> None:
        uid = owner.object["metadata"]["uid"]
        for key in list(self._dependents.get(uid, {})):
            dependent = self._server.store.get(*key)
            if dependent is not None:
                self._set_owners(dependent, [each for each in list_owners(dependent) if each["uid"] != uid])
        self._dependents.pop(uid, None)
        self._remove_finalizer(owner, ORPHAN)

    def _delete_in_foreground(self, owner: Stored) -> None:
        uid, blocked = owner.object["metadata"]["uid"], False
        for key in list(self._dependents.get(uid, {})):
            dependent = self._server.store.get(*key)
            if dependent is None:
                continue
            blocked |= any(
                each["uid"] == uid and each.get("blockOwnerDeletion") for each in list_owners(dependent)
            )
            if "deletionTimestamp" not in dependent.object["metadata"]:
                self._queue.put_nowait(key)
        if not blocked:
            self._remove_finalizer(owner, FOREGROUND)

    def _set_owners(self, stored: Stored, references: list[Object]) -> None:
        def change(obj: Object) -> None:
            obj["metadata"]["ownerReferences"] = references
            if not references:
                del obj["metadata"]["ownerReferences"]

        update_as_system(self._server, stored, change)

    def _remove_finalizer(self, owner: Stored, finalizer: str) -> None:
        def change(obj: Object) -> None:
            obj["metadata"]["finalizers"] = [
                each for each in obj["metadata"]["finalizers"] if each != finalizer
            ]

        current = self._server.store.get(owner.storage, *owner.key)
        if current is not None and finalizer in (current.object["metadata"].get("finalizers") or ()):
            update_as_system(self._server, current, change)


def _is_deleted_in_foreground(owner: Stored) -> bool:
    metadata = owner.object["metadata"]
    return "deletionTimestamp" in metadata and FOREGROUND in (metadata.get("finalizers") or ())
