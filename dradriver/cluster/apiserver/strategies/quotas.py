# ruff: noqa: ARG002 -- the methods of all strategies have the same parameters
"""Resource quotas: the resources that may be limited. Only the server writes the status."""

from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.strategies.base import Context, Strategy, keep
from dradriver.cluster.apiserver.validation.field import Causes, forbidden
from dradriver.cluster.apiserver.validation.resources import quota_amounts

_SCOPES = "quotas with scopes are not supported by this server"


class QuotaStrategy(Strategy):
    """Quotas limit the resources of pods and claims. Other resources may be named."""

    def prepare_create(self, context: Context, obj: Object) -> None:
        """See `Strategy`."""
        obj.setdefault("spec", {})
        obj["status"] = {}

    def validate_create(self, context: Context, obj: Object) -> Causes:
        """See `Strategy`."""
        spec = obj["spec"]
        causes = quota_amounts(spec.get("hard") or {}, "spec.hard")
        return causes + [
            forbidden(f"spec.{field}", _SCOPES) for field in ("scopes", "scopeSelector") if spec.get(field)
        ]

    def prepare_update(self, context: Context, obj: Object, old: Object) -> None:
        """See `Strategy`."""
        keep(obj, old, "status")
        obj.setdefault("spec", {})

    def validate_update(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        return self.validate_create(context, obj)

    def validate_status(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        status = dig(obj, "status") or {}
        return [
            cause
            for field in ("hard", "used")
            for cause in quota_amounts(status.get(field) or {}, f"status.{field}")
        ]
