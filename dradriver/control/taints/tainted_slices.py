"""Add the taints of DeviceTaintRules to the devices of slices (KEP-5055), as kube-scheduler does."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule, DeviceTaintSelector, apply_rules

__all__ = ["TaintedSlices"]

_Rules = tuple[DeviceTaintRule, ...]


class TaintedSlices:
    """Adds the taints of rules to slices.

    If a slice and its rules have not changed, each call returns the same object for the slice. So a caller can
    compare the result with an earlier result by identity.
    """

    def __init__(self) -> None:
        self._by_pool: Mapping[tuple[str | None, str | None], Sequence[DeviceTaintRule]] = {}
        self._known: dict[str, tuple[ResourceSlice, _Rules, ResourceSlice]] = {}

    def set_rules(self, rules: Iterable[DeviceTaintRule]) -> None:
        """Replace all rules."""
        self._by_pool = _group_by_pool(rules)

    def add_taints(self, source: ResourceSlice) -> ResourceSlice:
        """Return a slice with the taints of the rules.

        Args:
            source: the slice as its driver has published it.
        """
        name, driver, pool = source.metadata.name, source.spec.driver, source.spec.pool.name
        selectors = ((None, None), (None, pool), (driver, None), (driver, pool))
        rules = tuple(rule for selector in selectors for rule in self._by_pool.get(selector, ()))
        if not rules:
            self._known.pop(name, None)
            return source
        before = self._known.get(name)
        is_unchanged = before is not None and before[0] is source and [*map(id, before[1])] == [*map(id, rules)]
        tainted = before[2] if is_unchanged and before is not None else apply_rules(source, rules)
        self._known[name] = (source, rules, tainted)
        return tainted

    def forget(self, name: str) -> None:
        """Forget a slice that was deleted.

        Args:
            name: the slice's name.
        """
        self._known.pop(name, None)


def _group_by_pool(
    rules: Iterable[DeviceTaintRule],
) -> Mapping[tuple[str | None, str | None], Sequence[DeviceTaintRule]]:
    """Group the rules by the driver and the pool that they select (None: all); sort each group by name."""
    by_pool: defaultdict[tuple[str | None, str | None], list[DeviceTaintRule]] = defaultdict(list)
    for rule in sorted(rules, key=lambda rule: rule.metadata.name):
        selector = rule.spec.device_selector or DeviceTaintSelector()
        by_pool[selector.driver, selector.pool].append(rule)
    return by_pool
