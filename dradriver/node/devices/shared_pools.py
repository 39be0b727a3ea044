"""Look up pools that the control plane publishes, and whose devices this node's plugin prepares."""

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

__all__ = ["LookUpPools", "build_pools", "look_up_nothing", "look_up_pools"]

LookUpPools: TypeAlias = Callable[[Collection[str]], Awaitable[Sequence[Pool]]]
"""Function that takes pool names and returns the published pools of these names."""


async def look_up_nothing(_names: Collection[str]) -> Sequence[Pool]:
    """Return no pools; for tests without an API server."""
    return ()


def look_up_pools(client: Api, driver: str) -> LookUpPools:
    """Return a function that finds the driver's pools whose slices are not bound to one node by `nodeName`.

    The function lists the slices in one call. The slices are not watched, because few nodes prepare devices of
    such pools, and only rarely.
    """

    async def look_up(names: Collection[str]) -> Sequence[Pool]:
        try:
            fields = f"spec.driver={driver},spec.nodeName="
            slices = await client.list(SLICES, into=ResourceSlice, fields=fields)
        except ApiError as error:
            pools = ", ".join(sorted(names))
            raise DraError(f"pool {pools} of driver {driver} cannot be looked up: {error}") from error
        return build_pools(item for item in slices.items if item.spec.pool.name in names)

    return look_up


def build_pools(slices: Iterable[ResourceSlice]) -> list[Pool]:
    """Return the pools in these slices; if several generations have a device, the newest generation is used.

    A pool may be incomplete. Devices of older generations are kept, because a claim may have been allocated
    from the previous generation while the next generation is being written.
    """
    devices: defaultdict[str, dict[str, Device]] = defaultdict(dict)
    counter_sets: defaultdict[str, dict[str, CounterSet]] = defaultdict(dict)
    for item in sorted(slices, key=lambda item: item.spec.pool.generation):
        name = item.spec.pool.name
        devices[name].update((device.name, device) for device in item.spec.devices)
        counter_sets[name].update((each.name, each) for each in item.spec.shared_counters)
    return [
        Pool(name, tuple(own.values()), tuple(counter_sets[name].values())) for name, own in devices.items()
    ]
