"""Questions for both allocators about the nodes of random fleets."""

from collections import Counter
from collections.abc import Iterable

from tests.interop.allocator.random_events import FleetEvents
from tests.interop.allocator.random_fleets import Fleet
from tests.interop.allocator.random_hardware import Json

__all__ = ["random_questions"]

_EVENTS = 6


def random_questions(seed: int, theme: str) -> list[Json]:
    """Return a question for each node of a fleet after some events: does a pod fit on the node?

    What Kubernetes decides otherwise by design is left out (docs/keps.md).
    """
    fleet = Fleet(seed, theme, careful=True)
    events = FleetEvents(fleet)
    for _ in range(fleet.chance.randint(0, _EVENTS)):
        events.change()
    claims = fleet.pod()
    slices = list(_without_disagreeing(fleet.slices.values()))
    fleet.chance.shuffle(slices)
    common = {
        "gates": fleet.gates,
        "slices": slices,
        "classes": list(fleet.classes.values()),
        "held": fleet.held(),
        "claims": claims,
    }
    return [{**common, "node": node} for node in fleet.nodes.values()]


def _without_disagreeing(slices: Iterable[Json]) -> Iterable[Json]:
    """Yield the slices of pools whose slices of one generation agree on their number and name devices once."""
    pools: dict[tuple[str, str, int], list[Json]] = {}
    for each in slices:
        reference = each["spec"]["pool"]
        key = each["spec"]["driver"], reference["name"], reference["generation"]
        pools.setdefault(key, []).append(each)
    for members in pools.values():
        names = Counter(device["name"] for each in members for device in each["spec"].get("devices", ()))
        counts = {each["spec"]["pool"]["resourceSliceCount"] for each in members}
        if len(counts) == 1 and set(names.values()) <= {1}:
            yield from members
