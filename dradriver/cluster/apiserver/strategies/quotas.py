# ruff: noqa: ARG002 -- the methods of all strategies have the same parameters
"""Strategy of resource quotas: which resources may be limited. Only the server writes the status."""

from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.strategies.base import Context, Strategy, keep
from dradriver.cluster.apiserver.validation.field import Causes, forbidden
from dradriver.cluster.apiserver.validation.resources import check_quota_amounts

_SCOPES = "quotas with scopes are not supported by this server"


class QuotaStrategy(Strategy):
    """Quotas limit the resources of pods and claims. They may also name other resources."""

    def prepare(self, context: Context, obj: Object, old: Object | None) -> None:
        """See `Strategy`."""
        keep(obj, old or {"status": {}}, "status")
        obj.setdefault("spec", {})

    def validate(self, context: Context, obj: Object, old: Object | None) -> Causes:
        """See `Strategy`."""
        spec = obj["spec"]
        causes = check_quota_amounts(spec.get("hard") or {}, "spec.hard")
        return causes + [
            forbidden(f"spec.{field}", _SCOPES) for field in ("scopes", "scopeSelector") if spec.get(field)
        ]

    def validate_status(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        status = dig(obj, "status") or {}
        return [
            cause
            for field in ("hard", "used")
            for cause in check_quota_amounts(status.get(field) or {}, f"status.{field}")
        ]
