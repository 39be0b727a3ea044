"""Namespaces: the initial ones, their service accounts, and the deletion of their content."""

import asyncio
import contextlib

from dradriver.cluster.apiserver.access.identity import SERVER
from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.formats.values import Object, encode
from dradriver.cluster.apiserver.kinds.resources import NAMESPACES, SERVICE_ACCOUNTS, ServedResource
from dradriver.cluster.apiserver.requests.deletion import Options, delete
from dradriver.cluster.apiserver.requests.parse import ApiRequest, Target
from dradriver.cluster.apiserver.requests.writes import create, system_update
from dradriver.cluster.apiserver.status import StatusError
from dradriver.cluster.apiserver.storage.store import Stored, StoredChange

INITIAL = ("default", "kube-system", "kube-public", "kube-node-lease")


def create_initial(server: ServerParts) -> None:
    """Create the namespaces that every cluster has. Existing ones stay unchanged."""
    resource = server.registry.find("", "v1", "namespaces")
    for name in INITIAL:
        if resource is not None and server.store.get(NAMESPACES, "", name) is None:
            _create(server, resource, "", name)


def _create(server: ServerParts, resource: ServedResource, namespace: str, name: str) -> None:
    body: Object = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
    target = Target("create", resource, namespace)
    with contextlib.suppress(StatusError):
        create(server, ApiRequest(target, {"fieldManager": "kube-apiserver"}, SERVER, encode(body)))


class NamespaceController:
    """Gives each namespace its default service account, and empties and removes deleted ones.

    It works on the state, not on events: a pass finds the remaining work, so a crash in between loses nothing.
    """

    def __init__(self, server: ServerParts) -> None:
        self._server = server
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled."""
        stop = self._server.store.listen(self._notice)
        try:
            while True:
                self._wake.clear()
                self._pass()
                await self._wake.wait()
        finally:
            stop()

    def _notice(self, change: StoredChange) -> None:
        namespace = change.last.key[0]
        concerned = change.last.storage == NAMESPACES or (change.after is None and self._terminating(namespace))
        if concerned or (change.after is None and change.last.storage == SERVICE_ACCOUNTS):
            self._wake.set()

    def _terminating(self, namespace: str) -> bool:
        stored = self._server.store.get(NAMESPACES, "", namespace) if namespace else None
        return stored is not None and "deletionTimestamp" in stored.object["metadata"]

    def _pass(self) -> None:
        for namespace in self._server.store.all(NAMESPACES):
            if "deletionTimestamp" in namespace.object["metadata"]:
                self._empty(namespace)
            else:
                self._equip(namespace.key[1])

    def _equip(self, name: str) -> None:
        resource = self._server.registry.find("", "v1", "serviceaccounts")
        if resource is not None and self._server.store.get(SERVICE_ACCOUNTS, name, "default") is None:
            _create(self._server, resource, name, "default")

    def _empty(self, namespace: Stored) -> None:
        name, left = namespace.key[1], 0
        for resource in self._server.registry.preferred():
            if resource.namespaced:
                left += self._empty_resource(resource, name)
        if not left:
            self._remove(namespace)

    def _empty_resource(self, resource: ServedResource, name: str) -> int:
        """Delete the objects of a kind in a namespace. Return how many still exist."""
        left = 0
        for each in self._server.store.all(resource.storage):
            if each.key[0] == name:
                pending = "deletionTimestamp" in each.object["metadata"]
                gone = not pending and delete(self._server, resource, each, Options()).gone
                left += not gone
        return left

    def _remove(self, namespace: Stored) -> None:
        def finalize(obj: Object) -> None:
            obj["spec"] = {**obj.get("spec", {}), "finalizers": []}

        current = self._server.store.get(NAMESPACES, *namespace.key)
        if current is not None:
            system_update(self._server, current, finalize)
