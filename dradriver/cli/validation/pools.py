"""Checks the rules across the slices of a pool. The API server accepts pools that no allocator can use.

A finding names the slice and the field that it concerns: the device, the counter set, or the pool's own fields
of the first slice that disagrees.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dradriver.cli.validation.counters import consumption_warnings, too_many_counters
from dradriver.cli.validation.findings import Finding, problems_of
from dradriver.cli.validation.members import Member, located
from dradriver.errors import Problem
from dradriver.model.resource.counters import CounterSet
from dradriver.model.resource.pool import Pool, problems
from dradriver.model.resource.rules import counter_set_problems, device_problems

__all__ = ["check_pools"]

_ALONE: Final = "allocators leave an incomplete pool alone"


@dataclass(frozen=True, slots=True)
class _Generation:
    """The slices of a pool that count."""

    name: str
    members: Sequence[Member]

    @property
    def counter_sets(self) -> tuple[CounterSet, ...]:
        return tuple(each for member in self.members for each in member.spec.shared_counters)

    @property
    def complete(self) -> bool:
        return {member.spec.pool.resource_slice_count for member in self.members} == {len(self.members)}


def check_pools(members: Sequence[Member]) -> Iterator[Finding]:
    """Yield findings about each pool and about the size of each slice."""
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
        if pool.complete:
            yield from consumption_warnings(pool.name, pool.members)


def _obsolete(pool: _Generation, slices: Sequence[Member], newest: int) -> Iterator[Finding]:
    for member in slices:
        generation = member.spec.pool.generation
        if generation != newest:
            rule = f"{pool.name}: {generation} is obsolete, generation {newest} is here too"
            yield from problems_of(member.document, [Problem("spec.pool.generation", rule)], "warning")


def _count(pool: _Generation) -> Iterator[Finding]:
    """Yield a finding if slices disagree on `resourceSliceCount`, or if their number differs from it."""
    path, here = "spec.pool.resourceSliceCount", len(pool.members)
    first = pool.members[0]
    wanted = first.spec.pool.resource_slice_count
    for member in pool.members[1:]:
        count = member.spec.pool.resource_slice_count
        if count != wanted:
            rule = f"{pool.name}: {count} here, {wanted} in {first.document.name}: {_ALONE}"
            yield from problems_of(member.document, [Problem(path, rule)])
            return
    if here > wanted:
        rule = f"{pool.name}: there are {here} slices of this generation, more than {wanted}: {_ALONE}"
        yield from problems_of(pool.members[-1].document, [Problem(path, rule)])
    elif here < wanted:
        generation = first.spec.pool.generation
        rule = f"{pool.name}: {here} of {wanted} slices of generation {generation} are here: {_ALONE}"
        yield from problems_of(first.document, [Problem(path, rule)], "warning")


def _rules(pool: _Generation) -> Iterator[Finding]:
    """Yield violated rules of `model.pool`, except those that the server's rules have reported for a slice."""
    unsound = not all(member.sound for member in pool.members)
    told = set(_own_problems(pool)) if unsound else set()
    for problem in dict.fromkeys(_problems(pool)):
        if problem in told or (not pool.complete and "consumesCounters" in problem.path):
            continue
        found = located(pool.members, problem)
        said = Problem(found.path, f"{pool.name}: {problem.rule}")
        yield from problems_of(found.document, [said])


def _problems(pool: _Generation) -> Iterator[Problem]:
    # In some slices of a pool each device selects its nodes, in others the slice does, with different rules.
    sets = pool.counter_sets
    for choosing in (False, True):
        mine = [member for member in pool.members if bool(member.spec.per_device_node_selection) == choosing]
        devices = tuple(device for member in mine for device in member.spec.devices)
        if mine:
            yield from problems(Pool("", devices, sets, per_device_node_selection=choosing))
    by_device, by_slice = (_names(pool, choosing=choosing) for choosing in (True, False))
    for name in sorted(by_device & by_slice):
        yield Problem(f"devices[{name}]", "the name is used 2 times, it must be unique in the pool")


def _names(pool: _Generation, *, choosing: bool) -> set[str]:
    mine = (each for each in pool.members if bool(each.spec.per_device_node_selection) == choosing)
    return {name for member in mine for name in member.names("devices")}


def _own_problems(pool: _Generation) -> Iterator[Problem]:
    """Yield the rules that each device or counter set violates by itself."""
    for member in pool.members:
        per_device = bool(member.spec.per_device_node_selection)
        for device in member.spec.devices:
            for problem in device_problems(device, per_device_nodes=per_device):
                yield problem.under(f"devices[{device.name}]")
    for counter_set in pool.counter_sets:
        for problem in counter_set_problems(counter_set):
            yield problem.under(f"sharedCounters[{counter_set.name}]")
