# ruff: noqa: ARG002 -- the methods of all strategies have the same parameters
"""Strategy of pod disruption budgets. No controller computes the status: users and tests write it."""

from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.strategies.base import Context, Strategy, keep
from dradriver.cluster.apiserver.validation.field import Causes, invalid

_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class BudgetStrategy(Strategy):
    """Budgets select pods; preemption reads how many of them may be disrupted now."""

    def prepare(self, context: Context, obj: Object, old: Object | None) -> None:
        """See `Strategy`."""
        keep(obj, old or {"status": dict.fromkeys(_COUNTS, 0)}, "status")
        obj.setdefault("spec", {})

    def validate(self, context: Context, obj: Object, old: Object | None) -> Causes:
        """See `Strategy`."""
        spec = obj["spec"]
        causes: Causes = []
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            causes.append(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
        for index, each in enumerate(dig(spec, "selector", "matchExpressions") or ()):
            if each.get("operator") not in _OPERATORS:
                field = f"spec.selector.matchExpressions[{index}].operator"
                causes.append(invalid(field, each.get("operator"), "not a valid selector operator"))
        return causes

    def validate_status(self, context: Context, obj: Object, old: Object) -> Causes:
        """See `Strategy`."""
        status = obj.get("status") or {}
        return [
            invalid(f"status.{field}", status[field], "must be greater than or equal to 0")
            for field in _COUNTS
            if status.get(field, 0) < 0
        ]
