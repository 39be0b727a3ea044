"""Warns about consumption of counters that is valid but has surprising results (KEP-4815, KEP-5963)."""

from collections.abc import Iterator, Mapping, Sequence

from dradriver.cli.validation.findings import Finding, problems_of
from dradriver.cli.validation.members import Member
from dradriver.errors import Problem
from dradriver.model.resource.counters import MAX_SLICE_COUNTERS, CounterConsumption, CounterSet
from dradriver.model.resource.slices import ResourceSliceSpec

__all__ = ["consumption_warnings", "too_many_counters"]


def consumption_warnings(pool: str, members: Sequence[Member]) -> Iterator[Finding]:
    """Yield devices that can never be allocated, or not together with others of their counter set."""
    sets = {each.name: each for member in members for each in member.spec.shared_counters}
    grouped: dict[str, set[bool]] = {}
    for member in members:
        for device in member.spec.devices:
            for taken in device.consumes_counters:
                grouped.setdefault(taken.counter_set, set()).add(bool(taken.compatibility_groups))
    mixed = {name for name, kinds in grouped.items() if len(kinds) > 1}
    for member in members:
        for place, taken in _consumptions(member):
            found = [*_too_much(pool, place, taken, sets)]
            if taken.counter_set in mixed and not taken.compatibility_groups:
                found.append(_ungrouped(pool, place, taken))
            yield from problems_of(member.document, found, "warning")


def _consumptions(member: Member) -> Iterator[tuple[str, CounterConsumption]]:
    for number, device in enumerate(member.spec.devices):
        for index, taken in enumerate(device.consumes_counters):
            yield f"spec.devices[{number}].consumesCounters[{index}]", taken


def _too_much(
    pool: str, place: str, taken: CounterConsumption, sets: Mapping[str, CounterSet]
) -> Iterator[Problem]:
    counters = sets[taken.counter_set].counters if taken.counter_set in sets else {}
    for name, amount in taken.counters.items():
        if name in counters and amount.value > counters[name].value:
            rule = (
                f"{pool}: consumes {amount.value}, counter set {taken.counter_set} has {counters[name].value}: "
                "the device can never be allocated"
            )
            yield Problem(f"{place}.counters[{name}]", rule)


def _ungrouped(pool: str, place: str, taken: CounterConsumption) -> Problem:
    rule = (
        f"{pool}: other devices of counter set {taken.counter_set} have compatibility groups; "
        "a device without any is never allocated beside them"
    )
    return Problem(f"{place}.compatibilityGroups", rule)


def too_many_counters(spec: ResourceSliceSpec) -> Iterator[Problem]:
    """Yield a problem if a slice has more consumed counters than KEP-4815 allows."""
    consumed = sum(len(c.counters) for device in spec.devices for c in device.consumes_counters)
    if consumed > MAX_SLICE_COUNTERS:
        rule = (
            f"{consumed} consumed counters in one slice; KEP-4815 allows {MAX_SLICE_COUNTERS}, which "
            "Kubernetes 1.37 does not enforce but a later release may: spread the devices over more slices"
        )
        yield Problem("spec.devices", rule)
