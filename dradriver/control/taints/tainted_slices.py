"""The slices with the taints of DeviceTaintRules on their devices (KEP-5055), as kube-scheduler sees them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule, DeviceTaintSelector, with_rules

__all__ = ["TaintedSlices"]

_Rules = tuple[DeviceTaintRule, ...]


class TaintedSlices:
    """Adds the taints of rules to slices. A slice without changes stays the same object from call to call.

    So a caller that caches results by slice (`Inventory.of`) computes them again for the changed slices only.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[ResourceSlice, _Rules, ResourceSlice]] = {}

    def of(
        self, published: Iterable[ResourceSlice], rules: Iterable[DeviceTaintRule]
    ) -> Sequence[ResourceSlice]:
        """Return the slices with the taints of the rules, in the given order."""
        by_place = _by_place(rules)
        if not by_place:
            self._known.clear()
            return list(published)
        known, self._known = self._known, {}
        return [self._tainted(source, by_place, known) for source in published]

    def _tainted(
        self,
        source: ResourceSlice,
        by_place: Mapping[tuple[str | None, str | None], Sequence[DeviceTaintRule]],
        known: Mapping[str, tuple[ResourceSlice, _Rules, ResourceSlice]],
    ) -> ResourceSlice:
        driver, pool = source.spec.driver, source.spec.pool.name
        places = ((None, None), (None, pool), (driver, None), (driver, pool))
        rules = tuple(rule for place in places for rule in by_place.get(place, ()))
        if not rules:
            return source
        before = known.get(source.metadata.name)
        same = before is not None and before[0] is source and [*map(id, before[1])] == [*map(id, rules)]
        tainted = before[2] if same and before is not None else with_rules(source, rules)
        self._known[source.metadata.name] = (source, rules, tainted)
        return tainted


def _by_place(
    rules: Iterable[DeviceTaintRule],
) -> Mapping[tuple[str | None, str | None], Sequence[DeviceTaintRule]]:
    """Return the rules by the driver and pool that they name (None for any), ordered by name."""
    found: defaultdict[tuple[str | None, str | None], list[DeviceTaintRule]] = defaultdict(list)
    for rule in sorted(rules, key=lambda rule: rule.metadata.name):
        selector = rule.spec.device_selector or DeviceTaintSelector()
        found[selector.driver, selector.pool].append(rule)
    return found
