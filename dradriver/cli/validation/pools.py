"""Rules across the slices of a pool: the API server accepts what no allocator can use."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dradriver.cli.files import Document
from dradriver.cli.validation.findings import Finding, problems_of
from dradriver.errors import Problem
from dradriver.model.counters import MAX_SLICE_COUNTERS
from dradriver.model.pool import Pool, problems
from dradriver.model.rules import counter_set_problems, device_problems
from dradriver.model.slices import ResourceSlice, ResourceSliceSpec

__all__ = ["Member", "check_pools"]


@dataclass(frozen=True, slots=True)
class Member:
    """A slice and the document it came from; `sound`: the server's own rules hold."""

    document: Document
    slice: ResourceSlice
    sound: bool


def check_pools(members: Sequence[Member]) -> Iterator[Finding]:
    """Findings about each pool, reported at the first of its slices, and about each slice's size."""
    pools: Mapping[tuple[str, str], list[Member]] = defaultdict(list)
    for member in members:
        yield from problems_of(member.document, _too_many_counters(member.slice.spec), "warning")
        pools[member.slice.spec.driver, member.slice.spec.pool.name].append(member)
    for (driver, name), slices in pools.items():
        newest = max(member.slice.spec.pool.generation for member in slices)
        current = [member for member in slices if member.slice.spec.pool.generation == newest]
        yield from _check_pool(f"pool {driver}/{name}", current)


def _check_pool(subject: str, members: list[Member]) -> Iterator[Finding]:
    first = members[0]
    counts = {member.slice.spec.pool.resource_slice_count for member in members}
    incomplete = counts != {len(members)}
    if incomplete:
        generation = first.slice.spec.pool.generation
        wanted = " or ".join(map(str, sorted(counts)))
        rule = (
            f"{subject}: {len(members)} slice(s) of generation {generation} are here, they speak of {wanted}; "
            "allocators leave an incomplete pool alone"
        )
        problem = Problem("spec.pool.resourceSliceCount", rule)
        yield from problems_of(first.document, [problem], "warning")
    pool = _pool([member.slice.spec for member in members])
    found = problems(pool)
    if not all(member.sound for member in members):
        # The slices' own problems have been listed, in the server's words.
        own = _own_problems(pool)
        found = [problem for problem in found if problem not in own]
    if incomplete:
        found = [problem for problem in found if "consumesCounters" not in problem.path]
    yield from problems_of(
        first.document, (Problem(f"{subject}: {problem.path}", problem.rule) for problem in found)
    )


def _pool(specs: Sequence[ResourceSliceSpec]) -> Pool:
    return Pool(
        specs[0].pool.name,
        devices=tuple(device for spec in specs for device in spec.devices),
        counter_sets=tuple(counter_set for spec in specs for counter_set in spec.shared_counters),
        per_device_node_selection=any(spec.per_device_node_selection for spec in specs),
    )


def _own_problems(pool: Pool) -> set[Problem]:
    per_device = pool.per_device_node_selection
    devices = {
        problem.under(f"devices[{device.name}]")
        for device in pool.devices
        for problem in device_problems(device, per_device_nodes=per_device)
    }
    return devices | {
        problem.under(f"sharedCounters[{counter_set.name}]")
        for counter_set in pool.counter_sets
        for problem in counter_set_problems(counter_set)
    }


def _too_many_counters(spec: ResourceSliceSpec) -> Iterator[Problem]:
    consumed = sum(len(c.counters) for device in spec.devices for c in device.consumes_counters)
    if consumed > MAX_SLICE_COUNTERS:
        rule = (
            f"{consumed} consumed counters in one slice; KEP-4815 allows {MAX_SLICE_COUNTERS}, which "
            "Kubernetes 1.37 does not enforce but a later release may: spread the devices over more slices"
        )
        yield Problem("spec.devices", rule)
