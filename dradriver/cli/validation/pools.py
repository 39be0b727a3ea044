"""Checks the rules across the slices of a pool. The API server accepts pools that no allocator can use.

A finding names the slice and the field. The field is the device, the counter set, or, if slices differ in a
field of the pool, this field in the first slice that differs.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dradriver.cli.validation.counters import consumption_warnings, too_many_counters
from dradriver.cli.validation.findings import Finding, problems_of
from dradriver.cli.validation.members import Member, locate
from dradriver.errors import Problem
from dradriver.model.resource.counters import CounterSet
from dradriver.model.resource.pool import Pool, problems
from dradriver.model.resource.rules import counter_set_problems, device_problems

__all__ = ["check_pools"]

_IGNORED: Final = "allocators ignore an incomplete pool"


@dataclass(frozen=True, slots=True)
class _Generation:
    """The slices of a pool's newest generation."""

    name: str
    members: Sequence[Member]

    @property
    def counter_sets(self) -> tuple[CounterSet, ...]:
        return tuple(each for member in self.members for each in member.spec.shared_counters)

    @property
    def is_complete(self) -> bool:
        return {member.spec.pool.resource_slice_count for member in self.members} == {len(self.members)}


def check_pools(members: Sequence[Member]) -> Iterator[Finding]:
    """Yield findings about each pool, and about the number of counters in each slice.

    Args:
        members: all slices.
    """
    pools: Mapping[tuple[str, str], list[Member]] = defaultdict(list)
    for member in members:
        yield from problems_of(member.document, too_many_counters(member.spec), "warning")
        pools[member.spec.driver, member.spec.pool.name].append(member)
    for (driver, name), slices in pools.items():
        newest = max(member.spec.pool.generation for member in slices)
        pool = _Generation(
            f"pool {driver}/{name}", [each for each in slices if each.spec.pool.generation == newest]
        )
        yield from _obsolete(pool, slices, newest)
        yield from _count(pool)
        yield from _rules(pool)
        if pool.is_complete:
            yield from consumption_warnings(pool.name, pool.members)


def _obsolete(pool: _Generation, slices: Sequence[Member], newest: int) -> Iterator[Finding]:
    for member in slices:
        generation = member.spec.pool.generation
        if generation != newest:
            rule = f"{pool.name}: generation {generation} is obsolete: the files have generation {newest}"
            yield from problems_of(member.document, [Problem("spec.pool.generation", rule)], "warning")


def _count(pool: _Generation) -> Iterator[Finding]:
    """Yield a finding if slices disagree on `resourceSliceCount`, or if it is not the number of slices."""
    path, present = "spec.pool.resourceSliceCount", len(pool.members)
    first = pool.members[0]
    wanted, generation = first.spec.pool.resource_slice_count, first.spec.pool.generation
    for member in pool.members[1:]:
        count = member.spec.pool.resource_slice_count
        if count != wanted:
            rule = f"{pool.name}: {count} differs from {wanted} in {first.document.name}: {_IGNORED}"
            yield from problems_of(member.document, [Problem(path, rule)])
            return
    if present > wanted:
        rule = f"{pool.name}: generation {generation} has {present} slices, more than {wanted}: {_IGNORED}"
        yield from problems_of(pool.members[-1].document, [Problem(path, rule)])
    elif present < wanted:
        rule = f"{pool.name}: generation {generation} has {present} of {wanted} slices: {_IGNORED}"
        yield from problems_of(first.document, [Problem(path, rule)], "warning")


def _rules(pool: _Generation) -> Iterator[Finding]:
    """Yield violated rules of `model.resource.pool` that the checks of single slices have not reported."""
    has_invalid = not all(member.is_valid for member in pool.members)
    reported = set(_own_problems(pool)) if has_invalid else set()
    for problem in dict.fromkeys(_problems(pool)):
        if problem in reported or (not pool.is_complete and "consumesCounters" in problem.path):
            continue
        location = locate(pool.members, problem)
        yield from problems_of(location.document, [Problem(location.path, f"{pool.name}: {problem.rule}")])


def _problems(pool: _Generation) -> Iterator[Problem]:
    # In one pool, some slices can select nodes per device and others not. Different rules apply to them.
    sets = pool.counter_sets
    for per_device in (False, True):
        members = [
            member for member in pool.members if bool(member.spec.per_device_node_selection) == per_device
        ]
        devices = tuple(device for member in members for device in member.spec.devices)
        if members:
            yield from problems(Pool("", devices, sets, per_device_node_selection=per_device))
    by_device, by_slice = (_names(pool, per_device=per_device) for per_device in (True, False))
    for name in sorted(by_device & by_slice):
        yield Problem(f"devices[{name}]", "the name is used 2 times, it must be unique in the pool")


def _names(pool: _Generation, *, per_device: bool) -> set[str]:
    members = (each for each in pool.members if bool(each.spec.per_device_node_selection) == per_device)
    return {name for member in members for name in member.names("devices")}


def _own_problems(pool: _Generation) -> Iterator[Problem]:
    """Yield the rules that individual devices or counter sets violate."""
    for member in pool.members:
        per_device = bool(member.spec.per_device_node_selection)
        for device in member.spec.devices:
            for problem in device_problems(device, per_device_nodes=per_device):
                yield problem.under(f"devices[{device.name}]")
    for counter_set in pool.counter_sets:
        for problem in counter_set_problems(counter_set):
            yield problem.under(f"sharedCounters[{counter_set.name}]")
