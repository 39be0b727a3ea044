"""The objects that every handler and controller of the server uses."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from dradriver.cluster.apiserver.access.identity import Identity
from dradriver.cluster.apiserver.kinds.gates import FeatureGates
from dradriver.cluster.apiserver.kinds.resources import NAMESPACES, Registry
from dradriver.cluster.apiserver.requests.parse import ApiRequest
from dradriver.cluster.apiserver.status import not_found
from dradriver.cluster.apiserver.storage.store import Store, Stored
from dradriver.cluster.apiserver.strategies import Context
from dradriver.cluster.apiserver.validation.devices import CelCheck

__all__ = ["ServerParts"]


@dataclass(frozen=True)
class ServerParts:
    """The objects that every handler uses."""

    store: Store
    registry: Registry
    gates: FeatureGates
    cel_check: CelCheck | None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def time(self) -> str:
        """Return the current time in the format of object metadata."""
        return self.now().strftime("%Y-%m-%dT%H:%M:%SZ")

    def context(self, user: Identity, verb: str) -> Context:
        """Return the context that strategies need for a request."""
        return Context(self.time(), self.gates, user, verb, self._namespace_labels, self.cel_check)

    def _namespace_labels(self, namespace: str) -> dict[str, str]:
        stored = self.store.get(NAMESPACES, "", namespace)
        return dict(stored.object["metadata"].get("labels") or {}) if stored is not None else {}

    def existing(self, request: ApiRequest) -> Stored:
        """Return the object that a request names.

        Raises:
            StatusError: 404: the object does not exist.
        """
        target = request.target
        stored = self.store.get(target.resource.storage, target.namespace, target.name)
        if stored is None:
            raise not_found(target.resource.subject(target.name))
        return stored
