"""The state of a search: the resources left while some devices are chosen.

All values are integers that are changed in place and undone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dradriver.allocator.explain.refusal import ReasonCode
from dradriver.allocator.request.constraints import Constraint
from dradriver.allocator.request.subrequests import Subrequest
from dradriver.allocator.search.exclusion_masks import Marks
from dradriver.allocator.supply.node_supply import Supply

__all__ = ["Obstacle", "SearchState", "SubrequestUse", "UndoRecord"]

Obstacle: TypeAlias = tuple[ReasonCode, str]
"""The reason why a device can't be chosen: a code for programs and a text."""


@dataclass(frozen=True, slots=True)
class SubrequestUse:
    """How a subrequest uses a device.

    Attributes:
        mark: the bit that marks its devices as chosen.
        excludes: the marks that exclude it from a device (`exclusion_masks`).
        constraints: the numbers of the constraints that cover it.
        values: for each of these constraints, the row of values by device; see `SearchState.rows`.
        draws: for shared devices, the amounts that a share takes: (place in `left`, nanos).
        consumes: whether its devices take counters and join compatibility groups.
    """

    mark: int
    excludes: int
    constraints: tuple[int, ...]
    values: tuple[Sequence[int], ...] = ()
    draws: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    consumes: bool = True


@dataclass(slots=True)
class UndoRecord:
    """The changes of one choice, for undoing it."""

    device: int
    use: SubrequestUse
    mark: int
    fed: int
    first: bool
    joined: list[int]
    bound: list[int]
    component_id: int | None

    @property
    def is_share(self) -> bool:
        """Return whether the choice was a share of the device."""
        return self.device in self.use.draws


class SearchState:
    """The resources that are left.

    Admin access counts as use inside one attempt, as in Kubernetes. It blocks the device for the other requests
    of the pod. It consumes counters if `admin_consumes` is set (`supply.order.Order`). After the allocation it
    holds nothing (`InUse`).

    A device that several claims may share is never marked. Each choice is a share that takes a part of its
    capacities. The first share also takes its counters and joins its groups.

    Attributes:
        left: for each counter and shared capacity, the nanos left.
        joined: for each counter set, the compatibility groups still possible.
        marks: for each device, the marks of the requests that chose it.
        shares: for each device, the number of its shares in use; None if it is not shared.
        bound: for each constraint, its state.
        rows: (constraint, its values by device), one row for published values and one for each request that
            computes the attribute itself.
        fed: the devices whose counters and groups are available, as bits.
        chosen: for each mark, the devices chosen with it, as bits.
        totals: for each counter name, the nanos left in all counter sets together.
        touched: components with chosen devices, with the number of choices.
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
        self.joined = list(supply.joined)
        self.marks = [0] * len(supply.devices)
        self.bound = [constraint.start for constraint in constraints]
        self.rows: list[tuple[int, Sequence[int]]] = [
            (number, [constraint.published(device) for device in supply.devices])
            for number, constraint in enumerate(constraints)
        ]
        self.shares = list(supply.shared_out)
        self._rivals = _rivals(supply)
        self.fed = 0
        for device in range(len(supply.devices)):
            self.fed |= self._finds_counters(device) << device
        self.chosen: dict[int, int] = {}
        self.totals = [0] * (max(supply.counter_names, default=-1) + 1)
        for name, nano in zip(supply.counter_names, supply.left, strict=True):
            # A pool with a counter below zero serves no device that consumes counters.
            self.totals[name] += max(nano, 0)
        self.touched: dict[int, int] = {}
        self.component_ids: list[int | None] = [None] * len(supply.components)

    def use(
        self,
        ask: Subrequest,
        derived: Mapping[int, Sequence[int]],
        draws: Mapping[int, tuple[tuple[int, int], ...]],
        marks: Marks,
    ) -> SubrequestUse:
        """Return how the subrequest uses devices.

        Args:
            ask: the subrequest.
            derived: for each constraint whose attribute the subrequest computes itself, the values by device.
            draws: for each device, the amounts that a share takes.
            marks: its mark and the marks that exclude it.
        """
        covering = tuple(number for number, constraint in enumerate(self.constraints) if constraint.covers(ask))
        self.rows += derived.items()
        values = tuple(derived.get(number, self.rows[number][1]) for number in covering)
        return SubrequestUse(*marks, covering, values, draws, self.consumes(ask))

    def consumes(self, ask: Subrequest) -> bool:
        """Return whether the subrequest takes counters and joins compatibility groups."""
        return self._admin_consumes or not ask.admin

    def free(self, excludes: int, *, consumes: bool = True) -> int:
        """Return the devices without these marks whose needed counters and groups are available, as bits."""
        free = self.fed if consumes else self._every
        for mark, devices in self.chosen.items():
            if mark & excludes:
                free &= ~devices
        return free

    def fits(self, device: int, use: SubrequestUse) -> bool:
        """Return whether the device can be chosen now."""
        return self.available(device, use) and all(
            self.constraints[number].joined(self.bound[number], values[device]) is not None
            for number, values in zip(use.constraints, use.values, strict=True)
        )

    def available(self, device: int, use: SubrequestUse) -> bool:
        """Return whether the device can be chosen, without a check of constraints."""
        if self.marks[device] & use.excludes:
            return False
        for at, nano in use.draws.get(device, ()):
            if self.left[at] < nano:
                return False
        return not use.consumes or self._finds_counters(device)

    def _finds_counters(self, device: int) -> bool:
        """Return whether counters and groups are available. A device with a share already has its counters."""
        if self.shares[device]:
            return True
        for at, nano in self.supply.counters[device]:
            if self.left[at] < nano:
                return False
        return all(self.joined[at] & bits for at, bits in self.supply.groups[device])

    def take(self, device: int, use: SubrequestUse) -> UndoRecord:
        """Choose a device that fits."""
        supply, component, shares = self.supply, self.supply.component[device], self.shares[device]
        taken = UndoRecord(
            device,
            use,
            self.marks[device],
            self.fed,
            use.consumes and not shares,
            [self.joined[at] for at, _ in supply.groups[device]],
            [self.bound[number] for number in use.constraints],
            self.component_ids[component],
        )
        if shares is None:
            self.marks[device] |= use.mark
            self.chosen[use.mark] = self.chosen.get(use.mark, 0) | 1 << device
        else:
            # Only a consuming choice takes the counters that a later share relies on.
            self.shares[device] = shares + use.consumes
            self._draw(use.draws[device], 1)
        if taken.first:
            for at, bits in supply.groups[device]:
                self.joined[at] &= bits
            self._draw(supply.counters[device], 1)
            for rival in self._rivals[component]:
                if self.fed >> rival & 1 and not self._finds_counters(rival):
                    self.fed ^= 1 << rival
        for number, values in zip(use.constraints, use.values, strict=True):
            joined = self.constraints[number].joined(self.bound[number], values[device])
            assert joined is not None  # noqa: S101 - fits() said so
            self.bound[number] = joined
        self.component_ids[component] = None
        self.touched[component] = self.touched.get(component, 0) + 1
        return taken

    def undo(self, taken: UndoRecord) -> None:
        """Give back the device that was chosen last."""
        supply, device = self.supply, taken.device
        component, shares = supply.component[device], self.shares[device]
        self.fed = taken.fed
        if shares is None:
            self.marks[device] = taken.mark
            self.chosen[taken.use.mark] ^= 1 << device
        else:
            self.shares[device] = shares - taken.use.consumes
            self._draw(taken.use.draws[device], -1)
        if taken.first:
            for (at, _), joined in zip(supply.groups[device], taken.joined, strict=True):
                self.joined[at] = joined
            self._draw(supply.counters[device], -1)
        for number, bound in zip(taken.use.constraints, taken.bound, strict=True):
            self.bound[number] = bound
        self.component_ids[component] = taken.component_id
        self.touched[component] -= 1
        if not self.touched[component]:
            del self.touched[component]

    def _draw(self, counters: Iterable[tuple[int, int]], sign: int) -> None:
        names = self.supply.counter_names
        for at, nano in counters:
            self.left[at] -= sign * nano
            self.totals[names[at]] -= sign * nano

    def obstacle(self, device: int, use: SubrequestUse) -> Obstacle | None:
        """Return why the device can't be chosen now; None if it can."""
        if self.marks[device] & use.excludes:
            return "in-use", "already chosen for another request of the pod"
        draws = use.draws.get(device, ())
        shortage = self.shortage(device) if use.consumes else None
        return self.full(draws) or shortage or self._constraint(device, use)

    def full(self, draws: Iterable[tuple[int, int]]) -> Obstacle | None:
        """Return the capacity that has no room for a share with these amounts, as an obstacle."""
        for at, nano in draws:
            if self.left[at] < nano:
                name, needs, left = self.supply.told(at, nano, self.left[at])
                return "capacity", f"{name}: {needs} needed, {left} left"
        return None

    def shortage(self, device: int) -> Obstacle | None:
        """Return the counter or compatibility group that makes the device unavailable, as an obstacle."""
        if self.shares[device]:
            return None
        place = self.supply.places[device]
        for at, bits in self.supply.groups[device]:
            if not self.joined[at] & bits:
                groups, counter_set = place.table.groups, place.table.sets[at - place.first_set]
                ours, theirs = groups.text(bits), groups.text(self.joined[at])
                return (
                    "groups",
                    f"counter set {counter_set} is used with compatibility groups {theirs}, not {ours}",
                )
        for at, nano in self.supply.counters[device]:
            if self.left[at] < nano:
                local = at - place.first_counter
                counter_set, name = place.table.names[local]
                needs, left = place.table.amount(local, nano), place.table.amount(local, self.left[at])
                return "counter", f"counter {name} of counter set {counter_set}: {needs} needed, {left} left"
        return None

    def _constraint(self, device: int, use: SubrequestUse) -> Obstacle | None:
        for number, values in zip(use.constraints, use.values, strict=True):
            constraint, value = self.constraints[number], values[device]
            if constraint.joined(self.bound[number], value) is None:
                return "constraint", constraint.obstacle(value)
        return None


def _rivals(supply: Supply) -> list[list[int]]:
    """Return, for each component, the devices that consume its counters."""
    found: list[list[int]] = [[] for _ in supply.components]
    for device, component in enumerate(supply.component):
        if supply.counters[device]:
            found[component].append(device)
    return found
