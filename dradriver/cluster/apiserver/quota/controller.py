"""Updates the `status` of quotas."""

from dradriver.cluster.apiserver.formats.quantity import format_amount
from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.kinds.resources import CLAIMS, CLASSES, PODS, QUOTAS
from dradriver.cluster.apiserver.quota.namespace import sum_usage
from dradriver.cluster.apiserver.requests.writes import update_as_system
from dradriver.cluster.apiserver.storage.state_controller import StateController
from dradriver.cluster.apiserver.storage.store import Stored, StoredChange

__all__ = ["QuotaController"]

_COUNTED_STORAGES = {PODS, CLAIMS, CLASSES, QUOTAS}


class QuotaController(StateController):
    """Writes the usage of each quota into its status."""

    def _is_relevant(self, change: StoredChange) -> bool:
        return change.last.storage in _COUNTED_STORAGES

    def _reconcile(self) -> None:
        for quota in self._server.store.all(QUOTAS):
            self._update(quota)

    def _update(self, quota: Stored) -> None:
        hard = dig(quota.object, "spec", "hard") or {}
        used = sum_usage(self._server, quota.key[0], hard)

        def change(obj: Object) -> None:
            used_text = {name: format_amount(used[name], hard[name]) for name in sorted(used)}
            obj["status"] = {"hard": dict(hard), "used": used_text}

        update_as_system(self._server, quota, change)
