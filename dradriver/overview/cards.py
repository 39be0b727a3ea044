"""Computes the cards of a pool: one for each counter set, and one for the devices that consume no counters."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dradriver.allocator import PoolView
from dradriver.allocator.supply.devices_in_use import PoolUse
from dradriver.model.resource.device import Device
from dradriver.overview.counters.counter_use import (
    CounterSetUse,
    FreeCounters,
    find_product,
    list_devices,
    pool_counter_sets,
)
from dradriver.overview.counters.lanes import build_lanes
from dradriver.overview.counters.shares import used_part
from dradriver.overview.values import Card, CardDevice, Health, Lane, Segment

__all__ = ["PoolFacts", "build_cards"]


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """What other objects report about the devices of a pool.

    Attributes:
        use: the devices that claims hold.
        pods: for each of these claims (`namespace/name`), the pods for which it is reserved.
        health: the health of devices, as the kubelet reports it.
    """

    use: PoolUse = field(default_factory=PoolUse)
    pods: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    health: Mapping[str, Health] = field(default_factory=dict)


def build_cards(pool: PoolView, facts: PoolFacts) -> tuple[Card, ...]:
    """Return the cards of a pool, ordered by name.

    Args:
        pool: the newest generation of the pool, with the taints of DeviceTaintRules. If its slices break a
            rule, it has no cards.
        facts: what other objects report about its devices.
    """
    if pool.invalid is not None:
        return ()
    devices = list_devices(pool)
    noted = [device for device in devices if _is_noted(device, facts)]
    cards = [_counter_card(pool, use, noted, facts) for use in pool_counter_sets(pool, facts.use, facts.pods)]
    whole = [device for device in devices if not device.consumes_counters]
    if whole:
        cards.append(_device_card(pool, whole, facts))
    return tuple(cards)


def _is_noted(device: Device, facts: PoolFacts) -> bool:
    name = device.name
    return bool(device.taints) or name in facts.use.claims or facts.health.get(name) == "unhealthy"


def _counter_card(pool: PoolView, use: CounterSetUse, noted: Iterable[Device], facts: PoolFacts) -> Card:
    listed = tuple(
        [
            _list_device(device, facts, {name: str(counter.value) for name, counter in taken.counters.items()})
            for device in noted
            for taken in device.consumes_counters
            if taken.counter_set == use.name
        ]
    )
    return Card(
        driver=pool.driver,
        pool=pool.name,
        name=use.name,
        lanes=build_lanes(use, {device.name: at for at, device in enumerate(listed)}),
        listed=listed,
        fitting=() if pool.problem is not None else use.fitting,
        devices=use.devices,
        product=use.product,
    )


def _device_card(pool: PoolView, devices: Sequence[Device], facts: PoolFacts) -> Card:
    listed = tuple(_list_device(device, facts, {}) for device in devices if _is_noted(device, facts))
    positions = {device.name: at for at, device in enumerate(listed)}
    count = len(devices)
    segments = tuple(
        Segment(positions[device.name], at / count, (at + used_part(device, facts.use)) / count)
        for at, device in enumerate(devices)
        if device.name in facts.use.claims
    )
    unused = tuple(
        Segment(positions[device.name], at / count, (at + 1) / count)
        for at, device in enumerate(devices)
        if device.name in positions and device.name not in facts.use.claims
    )
    free = FreeCounters(pool, facts.use)
    return Card(
        driver=pool.driver,
        pool=pool.name,
        name=pool.name,
        lanes=(Lane("devices", count, str(count), str(len(segments)), segments, unused),),
        listed=listed,
        fitting=() if pool.problem is not None else tuple(each.name for each in devices if free.offers(each)),
        devices=count,
        product=find_product(devices, pool.driver),
    )


def _list_device(device: Device, facts: PoolFacts, consumes: Mapping[str, str]) -> CardDevice:
    name = device.name
    claims = facts.use.claims.get(name, ())
    return CardDevice(
        name,
        claims,
        tuple(dict.fromkeys(pod for claim in claims for pod in facts.pods.get(claim, ()))),
        consumes,
        tuple(map(str, device.taints)),
        facts.health.get(name, ""),
    )
