"""A pool of devices, and the rules that hold across its slices.

`Pool` is the object that a driver publishes. `problems()` is the only copy of its rules. The publisher uses it
before it sends, the allocator for what it received, and `dradriver validate` for files.

Source: KEP-4815 (Validation), KEP-5963, `pkg/apis/resource/validation` of Kubernetes 1.37.
"""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from dradriver.errors import Problem
from dradriver.model import names
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.encoding.codec import Value
from dradriver.model.encoding.plain_input import tuples
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.rules import counter_set_problems, device_problems, node_selector_problems

__all__ = ["Pool", "problems"]


class Pool(Value, frozen=True):
    """Devices that are published together, and the nodes that reach them.

    Without a node field, only the driver's own node reaches the pool (`spec.nodeName`). At most one node field
    may be set.

    Attributes:
        name: unique for the driver in the cluster; empty means the node's name.
        devices: in the order in which an allocator tries them among equals.
        counter_sets: the counter sets from which the devices consume (KEP-4815).
        node_selector: the nodes that reach the devices.
        all_nodes: every node reaches the devices.
        per_device_node_selection: every device selects its own nodes; only for publishers of the control plane.
        generation: a driver's own generation, used if larger than the published one.
    """

    name: str = ""
    devices: tuple[Device, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    generation: int = 0

    if TYPE_CHECKING:
        # msgspec builds __init__ from the fields; __post_init__ accepts any iterable.
        def __init__(
            self,
            name: str = ...,
            devices: Iterable[Device] = ...,
            counter_sets: Iterable[CounterSet] = ...,
            node_selector: NodeSelector | None = ...,
            all_nodes: bool = ...,  # noqa: FBT001 - the API's field
            per_device_node_selection: bool = ...,  # noqa: FBT001
            generation: int = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Turn iterables into tuples.

        Raises:
            TypeError: a field is not a list; the message names it.
        """
        tuples(f"pool {self.name!r}", self, ("devices", "counter_sets"))

    @property
    def node_local(self) -> bool:
        """Return whether only the driver's own node reaches the devices."""
        return self.node_selector is None and not self.all_nodes and not self.per_device_node_selection


def problems(pool: Pool) -> list[Problem]:
    """Return every broken rule of a pool: names, limits, uniqueness, and references to unknown counters.

    The paths start at the pool: `devices[gpu-0].consumesCounters[0].counterSet`.
    """
    found: list[Problem] = []
    if pool.name and (rule := names.pool_name(pool.name)):
        found.append(Problem("name", rule))
    found += _selection(pool)
    found += _duplicates("devices", (device.name for device in pool.devices))
    found += _duplicates("sharedCounters", (counter_set.name for counter_set in pool.counter_sets))
    for counter_set in pool.counter_sets:
        found += (p.under(f"sharedCounters[{counter_set.name}]") for p in counter_set_problems(counter_set))
    sets = {counter_set.name: counter_set for counter_set in pool.counter_sets}
    for device in pool.devices:
        where = f"devices[{device.name}]"
        rules = device_problems(device, per_device_nodes=pool.per_device_node_selection)
        found += (p.under(where) for p in rules)
        for index, consumption in enumerate(device.consumes_counters):
            found += (
                p.under(f"{where}.consumesCounters[{index}]") for p in unknown_counters(consumption, sets)
            )
    return found


def unknown_counters(consumption: CounterConsumption, sets: Mapping[str, CounterSet]) -> Iterator[Problem]:
    """Yield the counter sets and counters that a device names but the pool lacks (KEP-4815, Validation)."""
    counter_set = sets.get(consumption.counter_set)
    if counter_set is None:
        known = ", ".join(sorted(sets)) or "none"
        yield Problem(
            "counterSet", f"the pool has no counter set {consumption.counter_set!r} (it has: {known})"
        )
        return
    for name in consumption.counters:
        if name not in counter_set.counters:
            known = ", ".join(sorted(counter_set.counters))
            yield Problem(
                f"counters[{name}]", f"counter set {counter_set.name!r} has no such counter (it has: {known})"
            )


def _selection(pool: Pool) -> Iterator[Problem]:
    chosen = [
        field
        for field, on in (
            ("nodeSelector", pool.node_selector is not None),
            ("allNodes", pool.all_nodes),
            ("perDeviceNodeSelection", pool.per_device_node_selection),
        )
        if on
    ]
    if len(chosen) > 1:
        yield Problem(chosen[1], f"only one node selection is allowed, {chosen[0]} is set too")
    if pool.node_selector is not None:
        yield from node_selector_problems(pool.node_selector)


def _duplicates(field: str, named: Iterable[str]) -> Iterator[Problem]:
    for name, count in Tally(named).items():
        if count > 1:
            yield Problem(f"{field}[{name}]", f"the name is used {count} times, it must be unique in the pool")
