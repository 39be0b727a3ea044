"""Warns about valid counter consumption that prevents allocation (KEP-4815, KEP-5963)."""

from collections.abc import Iterator, Mapping, Sequence

from dradriver.cli.validation.findings import Finding, problems_of
from dradriver.cli.validation.members import Member
from dradriver.errors import Problem
from dradriver.model.resource.counters import MAX_SLICE_COUNTERS, CounterConsumption, CounterSet
from dradriver.model.resource.slices import ResourceSliceSpec

__all__ = ["consumption_warnings", "too_many_counters"]


def consumption_warnings(pool: str, members: Sequence[Member]) -> Iterator[Finding]:
    """Yield a warning for each device that can never be allocated, or never together with certain others.

    Args:
        pool: the pool, for messages.
        members: all slices of one generation of the pool.
    """
    sets = {each.name: each for member in members for each in member.spec.shared_counters}
    grouped: dict[str, set[bool]] = {}
    for member in members:
        for device in member.spec.devices:
            for consumption in device.consumes_counters:
                grouped.setdefault(consumption.counter_set, set()).add(bool(consumption.compatibility_groups))
    mixed = {name for name, kinds in grouped.items() if len(kinds) > 1}
    for member in members:
        for path, consumption in _consumptions(member):
            problems = [*_excess_consumption(pool, path, consumption, sets)]
            if consumption.counter_set in mixed and not consumption.compatibility_groups:
                problems.append(_missing_groups(pool, path, consumption))
            yield from problems_of(member.document, problems, "warning")


def _consumptions(member: Member) -> Iterator[tuple[str, CounterConsumption]]:
    for number, device in enumerate(member.spec.devices):
        for index, consumption in enumerate(device.consumes_counters):
            yield f"spec.devices[{number}].consumesCounters[{index}]", consumption


def _excess_consumption(
    pool: str, path: str, consumption: CounterConsumption, sets: Mapping[str, CounterSet]
) -> Iterator[Problem]:
    counters = sets[consumption.counter_set].counters if consumption.counter_set in sets else {}
    for name, amount in consumption.counters.items():
        if name in counters and amount.value > counters[name].value:
            rule = (
                f"{pool}: consumes {amount.value}, counter set {consumption.counter_set} has "
                f"{counters[name].value}: "
                "the device can never be allocated"
            )
            yield Problem(f"{path}.counters[{name}]", rule)


def _missing_groups(pool: str, path: str, consumption: CounterConsumption) -> Problem:
    rule = (
        f"{pool}: other devices of counter set {consumption.counter_set} have compatibility groups; "
        "a device without any is never allocated beside them"
    )
    return Problem(f"{path}.compatibilityGroups", rule)


def too_many_counters(spec: ResourceSliceSpec) -> Iterator[Problem]:
    """Yield a problem if a slice has more consumed counters than KEP-4815 allows.

    Args:
        spec: the slice.
    """
    consumed = sum(len(c.counters) for device in spec.devices for c in device.consumes_counters)
    if consumed > MAX_SLICE_COUNTERS:
        rule = (
            f"{consumed} consumed counters in one slice: KEP-4815 allows {MAX_SLICE_COUNTERS}. Kubernetes 1.37 "
            "does not enforce this limit, but a later release may: use more slices"
        )
        yield Problem("spec.devices", rule)
