"""The state of a search: the resources left while some devices are chosen.

All values are integers. A choice changes them in place, and `undo` restores them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from dradriver.allocator.explain.refusal import ReasonCode
from dradriver.allocator.request.constraints import Constraint
from dradriver.allocator.request.subrequests import ParsedRequest, Subrequest
from dradriver.allocator.supply.node_supply import Row, Supply

__all__ = ["ALL_MARKS", "Marks", "Obstacle", "SearchState", "SubrequestUse", "UndoRecord", "assign_marks"]

Marks: TypeAlias = tuple[int, int]
"""The mark of a request, and the marks of devices that it may not choose, as bits."""

ALL_MARKS: Final = -1

Obstacle: TypeAlias = tuple[ReasonCode, str]
"""The reason why a device can't be chosen: a code for programs and a text."""


@dataclass(frozen=True, slots=True)
class SubrequestUse:
    """How a subrequest uses devices.

    Attributes:
        mark: the bit that marks its devices as chosen.
        excludes: the marks of devices that it may not choose (`assign_marks`).
        constraints: the numbers of the constraints that cover the subrequest.
        values: for each of these constraints, the row of values by device; see `SearchState.rows`.
        share_use: for shared devices, the amounts that a share takes: (index in `left`, nanos).
        consumes: whether its devices take counters and join compatibility groups.
    """

    mark: int
    excludes: int
    constraints: tuple[int, ...]
    values: tuple[Sequence[int], ...] = ()
    share_use: Mapping[int, Row] = field(default_factory=dict)
    consumes: bool = True


@dataclass(slots=True)
class UndoRecord:
    """The data that `undo` needs to revert one choice."""

    device: int
    use: SubrequestUse
    mark: int
    supplied: int
    takes_counters: bool
    groups_left: list[int]
    constraint_states: list[int]
    component_id: int | None

    @property
    def is_share(self) -> bool:
        """Return whether the choice was a share of the device."""
        return self.device in self.use.share_use


class SearchState:
    """The resources that are left, and the devices that are chosen.

    During a search, a request with admin access blocks its devices for the other requests of the pod, as in
    Kubernetes. It consumes counters if `admin_consumes` is set (`supply.order.Order`). After the allocation,
    admin access holds nothing (`InUse`).

    A device that several claims may share is never marked. Each choice of the device is a share that takes a
    part of its capacities. The first share also takes the device's counters and joins its compatibility groups.

    Attributes:
        left: for each counter and shared capacity, the nanos left.
        groups_left: for each counter set, the compatibility groups that are still possible.
        marks: for each device, the marks of the requests that chose it.
        shareable: the devices that several claims may share, as bits.
        share_counts: for each device, the number of its shares in use; None if it is not shared.
        constraint_states: for each constraint, its state.
        rows: (constraint, values by device). Each constraint has one row for the published values, and one row
            for each request that derives the attribute.
        supplied: as bits, the devices whose counters and groups are available.
        chosen: for each mark, the devices that have it, as bits.
        totals: for each counter name, the nanos that are left in all counter sets together.
        touched: for each component with chosen devices, the number of choices.
        component_ids: for each component, the number that `symmetry` gave its state; None after a change.
    """

    def __init__(
        self, supply: Supply, constraints: Sequence[Constraint], *, admin_consumes: bool = True
    ) -> None:
        self.supply = supply
        self._admin_consumes = admin_consumes
        self._every = (1 << len(supply.devices)) - 1
        self.constraints = constraints
        self.left = list(supply.left)
        self.groups_left = list(supply.groups_left)
        self.marks = [0] * len(supply.devices)
        self.constraint_states = [constraint.start for constraint in constraints]
        self.rows: list[tuple[int, Sequence[int]]] = [
            (number, [constraint.published_value(device) for device in supply.devices])
            for number, constraint in enumerate(constraints)
        ]
        self.share_counts = list(supply.held_shares)
        self.shareable = sum(
            1 << device for device, shares in enumerate(self.share_counts) if shares is not None
        )
        self._competitors = _competitors(supply)
        self.supplied = 0
        for device in range(len(supply.devices)):
            self.supplied |= self._has_counters(device) << device
        self.chosen: dict[int, int] = {}
        self.totals = [0] * (max(supply.counter_names, default=-1) + 1)
        for name, nano in zip(supply.counter_names, supply.left, strict=True):
            # If a counter is below zero, no device that consumes it is available, so the counter adds nothing.
            self.totals[name] += max(nano, 0)
        self.touched: dict[int, int] = {}
        self.component_ids: list[int | None] = [None] * len(supply.components)

    def make_use(
        self,
        subrequest: Subrequest,
        derived: Mapping[int, Sequence[int]],
        share_use: Mapping[int, Row],
        marks: Marks,
    ) -> SubrequestUse:
        """Return how the subrequest uses devices.

        Args:
            subrequest: the subrequest.
            derived: for each constraint whose attribute the subrequest derives, the values by device.
            share_use: for each device, the amounts that a share takes.
            marks: the subrequest's mark, and the marks of devices that it may not choose.
        """
        covering = tuple(n for n, constraint in enumerate(self.constraints) if constraint.covers(subrequest))
        self.rows += derived.items()
        values = tuple(derived.get(number, self.rows[number][1]) for number in covering)
        return SubrequestUse(*marks, covering, values, share_use, self.consumes(subrequest))

    def consumes(self, subrequest: Subrequest) -> bool:
        """Return whether the subrequest takes counters and joins compatibility groups."""
        return self._admin_consumes or not subrequest.admin

    def free_devices(self, excludes: int, *, consumes: bool = True) -> int:
        """Return, as bits, the devices without these marks.

        If `consumes` is set, the devices' counters and groups must be available too.
        """
        free = self.supplied if consumes else self._every
        for mark, devices in self.chosen.items():
            if mark & excludes:
                free &= ~devices
        return free

    def fits(self, device: int, use: SubrequestUse) -> bool:
        """Return whether the device can be chosen now."""
        return self.available(device, use) and all(
            self.constraints[number].join(self.constraint_states[number], values[device]) is not None
            for number, values in zip(use.constraints, use.values, strict=True)
        )

    def satisfies_before(self, constraint: int, device: int, use: SubrequestUse) -> bool:
        """Return whether the device satisfies the constraints before this one."""
        return all(
            self.constraints[number].join(self.constraint_states[number], values[device]) is not None
            for number, values in zip(use.constraints, use.values, strict=True)
            if number < constraint
        )

    def available(self, device: int, use: SubrequestUse) -> bool:
        """Return whether the device can be chosen now if constraints are disregarded."""
        if self.marks[device] & use.excludes:
            return False
        for at, nano in use.share_use.get(device, ()):
            if self.left[at] < nano:
                return False
        return not use.consumes or self._has_counters(device)

    def _has_counters(self, device: int) -> bool:
        """Return whether counters and groups are available. A device with shares in use already has them."""
        if self.share_counts[device]:
            return True
        for at, nano in self.supply.counters[device]:
            if self.left[at] < nano:
                return False
        return all(self.groups_left[at] & bits for at, bits in self.supply.groups[device])

    def take(self, device: int, use: SubrequestUse) -> UndoRecord:
        """Choose a device that fits."""
        supply, component, shares = self.supply, self.supply.component[device], self.share_counts[device]
        taken = UndoRecord(
            device,
            use,
            self.marks[device],
            self.supplied,
            use.consumes and not shares,
            [self.groups_left[at] for at, _ in supply.groups[device]],
            [self.constraint_states[number] for number in use.constraints],
            self.component_ids[component],
        )
        if shares is None:
            self.marks[device] |= use.mark
            self.chosen[use.mark] = self.chosen.get(use.mark, 0) | 1 << device
        else:
            # A later share relies on the counters that an earlier share took, and only a consuming choice takes
            # them.
            self.share_counts[device] = shares + use.consumes
            self._consume(use.share_use[device], 1)
        if taken.takes_counters:
            for at, bits in supply.groups[device]:
                self.groups_left[at] &= bits
            self._consume(supply.counters[device], 1)
            for competitor in self._competitors[component]:
                if self.supplied >> competitor & 1 and not self._has_counters(competitor):
                    self.supplied ^= 1 << competitor
        for number, values in zip(use.constraints, use.values, strict=True):
            state = self.constraints[number].join(self.constraint_states[number], values[device])
            assert state is not None  # noqa: S101 - fits() has checked this
            self.constraint_states[number] = state
        self.component_ids[component] = None
        self.touched[component] = self.touched.get(component, 0) + 1
        return taken

    def undo(self, taken: UndoRecord) -> None:
        """Give back the device that was chosen last."""
        supply, device = self.supply, taken.device
        component, shares = supply.component[device], self.share_counts[device]
        self.supplied = taken.supplied
        if shares is None:
            self.marks[device] = taken.mark
            self.chosen[taken.use.mark] ^= 1 << device
        else:
            self.share_counts[device] = shares - taken.use.consumes
            self._consume(taken.use.share_use[device], -1)
        if taken.takes_counters:
            for (at, _), bits in zip(supply.groups[device], taken.groups_left, strict=True):
                self.groups_left[at] = bits
            self._consume(supply.counters[device], -1)
        for number, state in zip(taken.use.constraints, taken.constraint_states, strict=True):
            self.constraint_states[number] = state
        self.component_ids[component] = taken.component_id
        self.touched[component] -= 1
        if not self.touched[component]:
            del self.touched[component]

    def _consume(self, counters: Iterable[tuple[int, int]], sign: int) -> None:
        names = self.supply.counter_names
        for at, nano in counters:
            self.left[at] -= sign * nano
            self.totals[names[at]] -= sign * nano

    def find_obstacle(self, device: int, use: SubrequestUse) -> Obstacle | None:
        """Return why the device can't be chosen now; None if it can be chosen."""
        if self.marks[device] & use.excludes:
            return "in-use", "already chosen for another request of the pod"
        share_use = use.share_use.get(device, ())
        shortage = self.find_counter_shortage(device) if use.consumes else None
        return self.find_capacity_shortage(share_use) or shortage or self._constraint(device, use)

    def find_capacity_shortage(self, share_use: Iterable[tuple[int, int]]) -> Obstacle | None:
        """Return, as an obstacle, the first capacity that is too small for these amounts, else None."""
        for at, nano in share_use:
            if self.left[at] < nano:
                name, needs, left = self.supply.describe_resource(at, nano, self.left[at])
                return "capacity", f"{name}: {needs} needed, {left} left"
        return None

    def find_counter_shortage(self, device: int) -> Obstacle | None:
        """Return, as an obstacle, the counter or groups that make the device unavailable, else None."""
        if self.share_counts[device]:
            return None
        offsets = self.supply.offsets[device]
        for at, bits in self.supply.groups[device]:
            if not self.groups_left[at] & bits:
                groups, counter_set = offsets.table.groups, offsets.table.sets[at - offsets.first_set]
                ours, theirs = groups.text(bits), groups.text(self.groups_left[at])
                return (
                    "groups",
                    f"counter set {counter_set} is used with compatibility groups {theirs}, not {ours}",
                )
        for at, nano in self.supply.counters[device]:
            if self.left[at] < nano:
                local = at - offsets.first_counter
                counter_set, name = offsets.table.names[local]
                needs, left = offsets.table.amount(local, nano), offsets.table.amount(local, self.left[at])
                return "counter", f"counter {name} of counter set {counter_set}: {needs} needed, {left} left"
        return None

    def _constraint(self, device: int, use: SubrequestUse) -> Obstacle | None:
        for number, values in zip(use.constraints, use.values, strict=True):
            constraint, value = self.constraints[number], values[device]
            if constraint.join(self.constraint_states[number], value) is None:
                return "constraint", constraint.describe_conflict(value)
        return None


def _competitors(supply: Supply) -> list[list[int]]:
    """Return, for each component, the devices that consume its counters."""
    competitors: list[list[int]] = [[] for _ in supply.components]
    for device, component in enumerate(supply.component):
        if supply.counters[device]:
            competitors[component].append(device)
    return competitors


def assign_marks(requests: Sequence[ParsedRequest]) -> list[Marks]:
    """Return the marks of each request.

    Only a request with admin access may choose a device that another request of the pod uses, and only if the
    other request belongs to an earlier claim. "Earlier" refers to the order of the claims, not to the order of
    the search. So a proof has the same result in any order of requests.

    Requests of one claim with the same access behave alike. They share a *mark*: a bit that marks the devices
    that they chose. Each request also has a set of marks: it may not choose a device that has one of these
    marks.

    Args:
        requests: the requests of all claims of the pod, in order.
    """
    sides = [(request.claim, any(each.admin for each in request.alternatives)) for request in requests]
    if not any(admin for _, admin in sides):
        return [(1, ALL_MARKS)] * len(requests)
    bits = {side: 1 << number for number, side in enumerate(dict.fromkeys(sides))}
    excluded = {side: sum(bit for other, bit in bits.items() if _excludes(side, other)) for side in bits}
    return [(bits[side], excluded[side]) for side in sides]


def _excludes(one: tuple[int, bool], other: tuple[int, bool]) -> bool:
    """Return whether requests with these (claim, admin access) pairs never share a device."""
    _, later_has_admin = max(one, other)
    return one[0] == other[0] or not later_has_admin
