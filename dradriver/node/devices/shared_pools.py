"""Pools that the control plane publishes, and whose devices this node's plugin prepares."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TypeAlias

from dradriver.errors import DraError
from dradriver.kube.errors import ApiError
from dradriver.kube.resources import SLICES
from dradriver.model.resource.counters import CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.node.api import Api

__all__ = ["LookUpPools", "look_up_pools", "nowhere", "pools_of"]

LookUpPools: TypeAlias = Callable[[Collection[str]], Awaitable[Sequence[Pool]]]
"""Function that returns the published pools of these names; unpublished ones are omitted."""


async def nowhere(_names: Collection[str]) -> Sequence[Pool]:
    """Return no pools: without an API server nothing is published elsewhere."""
    return ()


def look_up_pools(client: Api, driver: str) -> LookUpPools:
    """Return a function that lists the driver's slices that belong to no single node, in one call.

    The slices are not watched: few nodes prepare such devices, and each of them rarely.
    """

    async def look_up(names: Collection[str]) -> Sequence[Pool]:
        try:
            found = await client.list(SLICES, into=ResourceSlice, fields=f"spec.driver={driver},spec.nodeName=")
        except ApiError as error:
            told = ", ".join(sorted(names))
            raise DraError(f"pool {told} of driver {driver} can't be looked up: {error}") from error
        return pools_of(item for item in found.items if item.spec.pool.name in names)

    return look_up


def pools_of(slices: Iterable[ResourceSlice]) -> list[Pool]:
    """Return the pools of slices of any generation: the newest pool of each name, complete or not.

    A claim may have been allocated from the generation before the one that is being written.
    """
    devices: defaultdict[str, dict[str, Device]] = defaultdict(dict)
    counter_sets: defaultdict[str, dict[str, CounterSet]] = defaultdict(dict)
    for item in sorted(slices, key=lambda item: item.spec.pool.generation):
        name = item.spec.pool.name
        devices[name].update((device.name, device) for device in item.spec.devices)
        counter_sets[name].update((each.name, each) for each in item.spec.shared_counters)
    return [
        Pool(name, tuple(found.values()), tuple(counter_sets[name].values())) for name, found in devices.items()
    ]
