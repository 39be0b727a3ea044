"""Creates the initial namespaces and default service accounts, and empties deleted namespaces."""

import contextlib

from dradriver.cluster.apiserver.access.identity import SERVER
from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.formats.values import Object, encode
from dradriver.cluster.apiserver.kinds.resources import NAMESPACES, SERVICE_ACCOUNTS, ServedResource
from dradriver.cluster.apiserver.requests.deletion import DeleteOptions, delete
from dradriver.cluster.apiserver.requests.parse import ApiRequest, Target
from dradriver.cluster.apiserver.requests.writes import create, update_as_system
from dradriver.cluster.apiserver.status import StatusError
from dradriver.cluster.apiserver.storage.state_controller import StateController
from dradriver.cluster.apiserver.storage.store import Stored, StoredChange

INITIAL = ("default", "kube-system", "kube-public", "kube-node-lease")


def create_initial(server: ServerParts) -> None:
    """Create the namespaces that every cluster has. Existing namespaces stay unchanged."""
    resource = server.registry.find("", "v1", "namespaces")
    for name in INITIAL:
        if resource is not None and server.store.get(NAMESPACES, "", name) is None:
            _create(server, resource, "", name)


def _create(server: ServerParts, resource: ServedResource, namespace: str, name: str) -> None:
    body: Object = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
    target = Target("create", resource, namespace)
    with contextlib.suppress(StatusError):
        create(server, ApiRequest(target, {"fieldManager": "kube-apiserver"}, SERVER, encode(body)))


class NamespaceController(StateController):
    """Creates the default service account of each namespace. Empties and removes deleted namespaces."""

    def _is_relevant(self, change: StoredChange) -> bool:
        storage, is_deletion = change.last.storage, change.after is None
        if storage == NAMESPACES or (is_deletion and storage == SERVICE_ACCOUNTS):
            return True
        return is_deletion and self._is_terminating(change.last.key[0])

    def _is_terminating(self, namespace: str) -> bool:
        stored = self._server.store.get(NAMESPACES, "", namespace) if namespace else None
        return stored is not None and "deletionTimestamp" in stored.object["metadata"]

    def _reconcile(self) -> None:
        for namespace in self._server.store.all(NAMESPACES):
            if "deletionTimestamp" in namespace.object["metadata"]:
                self._delete_content(namespace)
            else:
                self._create_service_account(namespace.key[1])

    def _create_service_account(self, name: str) -> None:
        resource = self._server.registry.find("", "v1", "serviceaccounts")
        if resource is not None and self._server.store.get(SERVICE_ACCOUNTS, name, "default") is None:
            _create(self._server, resource, name, "default")

    def _delete_content(self, namespace: Stored) -> None:
        name, remaining = namespace.key[1], 0
        for resource in self._server.registry.preferred():
            if resource.namespaced:
                remaining += self._delete_objects(resource, name)
        if not remaining:
            self._finalize(namespace)

    def _delete_objects(self, resource: ServedResource, name: str) -> int:
        """Delete the objects of a kind in a namespace. Return how many of these objects still exist."""
        remaining = 0
        for each in self._server.store.all(resource.storage):
            if each.key[0] == name:
                pending = "deletionTimestamp" in each.object["metadata"]
                gone = not pending and delete(self._server, resource, each, DeleteOptions()).gone
                remaining += not gone
        return remaining

    def _finalize(self, namespace: Stored) -> None:
        def finalize(obj: Object) -> None:
            obj["spec"] = {**obj.get("spec", {}), "finalizers": []}

        current = self._server.store.get(NAMESPACES, *namespace.key)
        if current is not None:
            update_as_system(self._server, current, finalize)
