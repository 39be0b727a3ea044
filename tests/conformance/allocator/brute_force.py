"""The oracle for the allocator: it tries every combination of devices in Kubernetes' order.

It uses the API's values and nothing of the allocator. It expects valid pools, and slices of a generation with
the same slice count.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

from dradriver.model.resource.claim import (
    MAX_RESULTS,
    DeviceConstraint,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from dradriver.model.resource.device import Device
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["Choice", "Offered", "World", "first_allocation", "flaws"]

Matches: TypeAlias = Callable[[str, Device], bool]


@dataclass(frozen=True)
class Offered:
    """A device as the oracle sees it."""

    driver: str
    pool: str
    device: Device

    @property
    def name(self) -> tuple[str, str, str]:
        return self.driver, self.pool, self.device.name


@dataclass(frozen=True)
class World:
    """The input of the oracle."""

    slices: Sequence[ResourceSlice]
    classes: Mapping[str, DeviceClass]
    held: frozenset[tuple[str, str, str]]
    node: str
    labels: Mapping[str, str]
    matches: Matches
    admin_consumes: bool = True

    @cached_property
    def pools(self) -> dict[tuple[str, str], list[ResourceSlice] | None]:
        """Return the node's slices of each pool: None if slices are missing, no entry during an update.

        As in Kubernetes generations are compared among the slices that reach the node. Where these are fewer
        than there should be, newer slices anywhere hide the pool, and those of other nodes have to be there.
        """
        found: dict[tuple[str, str], list[ResourceSlice] | None] = {}
        for key in {_pool_of(source) for source in self.slices}:
            members = sorted((s for s in self.slices if _pool_of(s) == key), key=lambda s: s.metadata.name)
            reached = [source for source in members if self._reaches(source)]
            newest = max((_generation(source) for source in reached), default=0)
            reached = [source for source in reached if _generation(source) == newest]
            wanted = reached[0].spec.pool.resource_slice_count if reached else 0
            if len(reached) == wanted:
                found[key] = reached
            elif all(_generation(source) <= newest for source in members):
                whole = sum(_generation(source) == newest for source in members) == wanted
                found[key] = reached if whole else None
        return found

    @cached_property
    def counting(self) -> list[ResourceSlice]:
        """Return the slices that count for counters and their consumers."""
        found: list[ResourceSlice] = []
        for key, reached in self.pools.items():
            if reached and len(reached) == reached[0].spec.pool.resource_slice_count:
                found += reached
            elif reached:
                of_pool = (source for source in self.slices if _pool_of(source) == key)
                found += (source for source in of_pool if _generation(source) == _generation(reached[0]))
        return found

    @cached_property
    def offered(self) -> list[Offered]:
        """Return the devices on the node, in Kubernetes' order."""
        pools = {
            key: [s for s in reached or () if not s.spec.shared_counters] for key, reached in self.pools.items()
        }
        late = {
            key: any(d.binding_conditions for s in members for d in s.spec.devices)
            for key, members in pools.items()
        }
        return [
            Offered(*key, device)
            for key in sorted(pools, key=lambda key: (late[key], key))
            for source in pools[key]
            for device in source.spec.devices
        ]

    def _reaches(self, source: ResourceSlice) -> bool:
        spec = source.spec
        selected = spec.node_selector is not None and spec.node_selector.matches(self.node, self.labels)
        return spec.node_name == self.node or bool(spec.all_nodes) or selected


def _pool_of(source: ResourceSlice) -> tuple[str, str]:
    return source.spec.driver, source.spec.pool.name


def _generation(source: ResourceSlice) -> int:
    return source.spec.pool.generation


@dataclass(frozen=True)
class Choice:
    """One device for one request of one claim."""

    claim: int
    request: str
    admin: bool
    offered: Offered


def first_allocation(claims: Sequence[ResourceClaim], world: World) -> list[Choice] | None:
    """Return the first combination without a flaw, or None."""
    slots = [
        list(_ways(number, request.name, request.exactly, request.first_available, world))
        for number, claim in enumerate(claims)
        for request in claim.spec.devices.requests
    ]
    return _completed([], slots, claims, world)


def _completed(
    choices: list[Choice],
    slots: Sequence[Sequence[list[Choice]]],
    claims: Sequence[ResourceClaim],
    world: World,
) -> list[Choice] | None:
    """Return the first completion without a flaw; a flaw of a part is a flaw of each completion."""
    if not slots:
        return choices
    for way in slots[0]:
        more = [*choices, *way]
        if not any(flaws(more, claims, world)):
            found = _completed(more, slots[1:], claims, world)
            if found is not None:
                return found
    return None


def _ways(
    claim: int,
    name: str,
    exactly: ExactDeviceRequest | None,
    alternatives: Sequence[DeviceSubRequest],
    world: World,
) -> Iterator[list[Choice]]:
    subrequests = [(name, exactly)] if exactly else [(f"{name}/{sub.name}", sub) for sub in alternatives]
    for full_name, subrequest in subrequests:
        if subrequest.allocation_mode == "All" and None in world.pools.values():
            continue  # "All" is undefined without all slices
        fitting = [offered for offered in world.offered if _matches(subrequest, offered.device, world)]
        count = subrequest.count if subrequest.allocation_mode == "ExactCount" else max(len(fitting), 1)
        for chosen in combinations(fitting, count):
            admin = isinstance(subrequest, ExactDeviceRequest) and bool(subrequest.admin_access)
            if all(_tolerated(subrequest, offered.device) for offered in chosen):
                yield [Choice(claim, full_name, admin, offered) for offered in chosen]


def _matches(subrequest: ExactDeviceRequest | DeviceSubRequest, device: Device, world: World) -> bool:
    selectors = [*world.classes[subrequest.device_class_name].spec.selectors, *subrequest.selectors]
    return all(world.matches(s.cel.expression if s.cel else "", device) for s in selectors)


def _tolerated(subrequest: ExactDeviceRequest | DeviceSubRequest, device: Device) -> bool:
    return all(
        taint.effect == "None"
        or any(
            t.effect in {"", taint.effect}
            and t.key in {"", taint.key}
            and (t.operator == "Exists" or t.value == taint.value)
            for t in subrequest.tolerations
        )
        for taint in device.taints
    )


def flaws(choices: Sequence[Choice], claims: Sequence[ResourceClaim], world: World) -> Iterator[str]:
    """Return all flaws of a combination."""
    yield from _used_twice(choices, world)
    yield from _counters(choices, world)
    yield from _groups(choices, world)
    for number, claim in enumerate(claims):
        mine = [choice for choice in choices if choice.claim == number]
        if len(mine) > MAX_RESULTS:
            yield f"{claim.ref} has {len(mine)} devices"
        for constraint in claim.spec.devices.constraints:
            yield from _constraint(constraint, [choice for choice in mine if constraint.covers(choice.request)])


def _used_twice(choices: Sequence[Choice], world: World) -> Iterator[str]:
    for index, choice in enumerate(choices):
        name = choice.offered.name
        before = [other for other in choices[:index] if other.offered.name == name]
        if choice.admin:
            before = [other for other in before if other.claim == choice.claim]
        if before or (name in world.held and not choice.admin):
            yield f"{name} is used twice"


def _consumers(choices: Sequence[Choice], world: World) -> Iterator[tuple[str, str, Device]]:
    """Return the consumers of counters: held devices on any node, and chosen ones."""
    for source in world.counting:
        for device in source.spec.devices if not source.spec.shared_counters else ():
            if (*_pool_of(source), device.name) in world.held:
                yield *_pool_of(source), device
    for choice in _consuming(choices, world):
        yield choice.offered.driver, choice.offered.pool, choice.offered.device


def _consuming(choices: Sequence[Choice], world: World) -> list[Choice]:
    """Return the devices that need counters and groups; in Kubernetes also those with admin access."""
    return [choice for choice in choices if world.admin_consumes or not choice.admin]


def _counters(choices: Sequence[Choice], world: World) -> Iterator[str]:
    drawn: Counter[tuple[str, str, str, str]] = Counter()
    for driver, pool, device in _consumers(choices, world):
        for taken in device.consumes_counters:
            for name, counter in taken.counters.items():
                drawn[driver, pool, taken.counter_set, name] += counter.value.nano
    # Kubernetes: one counter below zero stops every device of the pool that consumes any.
    consuming = _consuming(choices, world)
    concerned = {(c.offered.driver, c.offered.pool) for c in consuming if c.offered.device.consumes_counters}
    for source in world.counting:
        key = _pool_of(source)
        for counter_set in source.spec.shared_counters if key in concerned else ():
            for name, counter in counter_set.counters.items():
                if drawn[*key, counter_set.name, name] > counter.value.nano:
                    yield f"{counter_set.name}/{name} is overdrawn"


def _groups(choices: Sequence[Choice], world: World) -> Iterator[str]:
    users: dict[tuple[str, str, str], list[frozenset[str]]] = {}
    for driver, pool, device in _consumers(choices, world):
        for taken in device.consumes_counters:
            groups = frozenset(taken.compatibility_groups or [""])
            users.setdefault((driver, pool, taken.counter_set), []).append(groups)
    concerned = {
        (c.offered.driver, c.offered.pool, taken.counter_set)
        for c in _consuming(choices, world)
        for taken in c.offered.device.consumes_counters
    }
    for key in concerned:
        if not frozenset.intersection(*users[key]):
            yield f"{key} is used with disjoint groups"


def _constraint(constraint: DeviceConstraint, choices: Sequence[Choice]) -> Iterator[str]:
    attribute = constraint.match_attribute or constraint.distinct_attribute or ""
    values = [_values(choice.offered, attribute) for choice in choices]
    if not all(values):
        yield f"a device has no {attribute}"
    elif constraint.match_attribute and values and not frozenset.intersection(*values):
        yield f"{attribute} differs"
    elif constraint.distinct_attribute and len(frozenset().union(*values)) < sum(map(len, values)):
        yield f"{attribute} is not distinct"


def _values(offered: Offered, attribute: str) -> frozenset[tuple[type, object]]:
    """Return an attribute as a set (list-typed attributes, KEP-5491)."""
    value = offered.device.attribute(attribute, offered.driver)
    items = value if isinstance(value, tuple) else (value,) if value is not None else ()
    return frozenset((type(item), item) for item in items)
