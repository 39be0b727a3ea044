"""A pool of devices, and the rules that apply to all its slices together.

`Pool` is the object that a driver publishes. `problems()` is the only implementation of its rules. The
publisher checks pools with it before it writes slices, the allocator checks the slices that it has read, and
`dradriver validate` checks files.

Source: KEP-4815 (Validation), KEP-5963, `pkg/apis/resource/validation` of Kubernetes 1.37.
"""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from dradriver.errors import Problem
from dradriver.model import names
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.encoding.codec import Value
from dradriver.model.encoding.plain_input import convert_to_tuples
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.rules import counter_set_problems, device_problems, node_selector_problems

__all__ = ["Pool", "problems"]


class Pool(Value, frozen=True):
    """Devices that are published together, and the nodes that reach them.

    At most one of `node_selector`, `all_nodes` and `per_device_node_selection` may be set. If none is set, only
    the driver's own node reaches the pool (`spec.nodeName`).

    Attributes:
        name: the pool's name, unique among the driver's pools in the cluster. Empty: the node's name.
        devices: the devices. An allocator tries equal devices in this order.
        counter_sets: the counter sets from which the devices consume (KEP-4815).
        node_selector: the nodes that reach the devices.
        all_nodes: every node reaches the devices.
        per_device_node_selection: every device selects its own nodes. Only publishers of the control plane may
            set this.
        generation: a generation that the driver chooses. It is used if it is larger than the published
            generation.
    """

    name: str = ""
    devices: tuple[Device, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    generation: int = 0

    if TYPE_CHECKING:
        # msgspec builds an __init__ with the types of the fields, but __post_init__ accepts any iterable.
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
            TypeError: a field is not a list. The message names the field.
        """
        convert_to_tuples(f"pool {self.name!r}", self, ("devices", "counter_sets"))

    @property
    def node_local(self) -> bool:
        """Return whether only the driver's own node reaches the devices."""
        return self.node_selector is None and not self.all_nodes and not self.per_device_node_selection


def problems(pool: Pool) -> list[Problem]:
    """Return every broken rule of a pool: names, limits, uniqueness, and references to unknown counters.

    The paths in the problems are relative to the pool: `devices[gpu-0].consumesCounters[0].counterSet`.
    """
    broken: list[Problem] = []
    if pool.name and (rule := names.pool_name(pool.name)):
        broken.append(Problem("name", rule))
    broken += _check_node_selection(pool)
    broken += _check_unique("devices", (device.name for device in pool.devices))
    broken += _check_unique("sharedCounters", (counter_set.name for counter_set in pool.counter_sets))
    for counter_set in pool.counter_sets:
        broken += (p.under(f"sharedCounters[{counter_set.name}]") for p in counter_set_problems(counter_set))
    sets = {counter_set.name: counter_set for counter_set in pool.counter_sets}
    for device in pool.devices:
        path = f"devices[{device.name}]"
        rules = device_problems(device, per_device_nodes=pool.per_device_node_selection)
        broken += (p.under(path) for p in rules)
        for index, consumption in enumerate(device.consumes_counters):
            broken += (
                p.under(f"{path}.consumesCounters[{index}]") for p in unknown_counters(consumption, sets)
            )
    return broken


def unknown_counters(consumption: CounterConsumption, sets: Mapping[str, CounterSet]) -> Iterator[Problem]:
    """Yield a problem for each consumed counter set or counter that the pool lacks (KEP-4815, Validation)."""
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


def _check_node_selection(pool: Pool) -> Iterator[Problem]:
    selected = [
        field
        for field, is_set in (
            ("nodeSelector", pool.node_selector is not None),
            ("allNodes", pool.all_nodes),
            ("perDeviceNodeSelection", pool.per_device_node_selection),
        )
        if is_set
    ]
    if len(selected) > 1:
        yield Problem(selected[1], f"only one node selection is allowed, {selected[0]} is set too")
    if pool.node_selector is not None:
        yield from node_selector_problems(pool.node_selector)


def _check_unique(field: str, names_in_use: Iterable[str]) -> Iterator[Problem]:
    for name, count in Tally(names_in_use).items():
        if count > 1:
            yield Problem(f"{field}[{name}]", f"the name is used {count} times, must be unique in the pool")
