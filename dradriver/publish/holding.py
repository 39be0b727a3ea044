"""Changes that have to wait because a claim holds the device.

Counters and compatibility groups of an allocated device are what the scheduler counted with: while a claim
holds the device they stay as they are published (KEP-5963). The rest of the pool goes on.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from dradriver.model.counters import CounterConsumption, CounterSet
from dradriver.model.device import Device
from dradriver.model.pool import Pool, problems
from dradriver.model.slices import ResourceSlice

__all__ = ["changed_devices", "current_slices", "hold_back"]


def current_slices(seen: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """The slices of the newest generation, by name."""
    known = sorted(seen, key=lambda item: item.metadata.name)
    newest = max((item.spec.pool.generation for item in known), default=0)
    return [item for item in known if item.spec.pool.generation == newest]


def changed_devices(wanted: Pool, seen: Iterable[ResourceSlice]) -> set[str]:
    """Devices whose counters or groups, or a counter set they consume, would change.

    A device that is not wanted any more is not among them: it is gone, whoever holds it.
    """
    devices, sets = _published(seen)
    wanted_sets = {counter_set.name: counter_set for counter_set in wanted.counter_sets}
    return {
        device.name
        for device in wanted.devices
        if (old := devices.get(device.name)) is not None
        and (
            device.consumes_counters != old.consumes_counters
            or any(_set_changed(c, sets, wanted_sets) for c in old.consumes_counters)
        )
    }


def hold_back(wanted: Pool, seen: Iterable[ResourceSlice], held: Collection[str]) -> Pool | None:
    """The wanted pool, with held devices and their counter sets as they are published.

    None if the two don't fit together (another device needs what the old counter set does not have): then the
    whole pool has to wait.
    """
    devices, sets = _published(seen)
    kept = {
        consumption.counter_set
        for name in held
        if name in devices
        for consumption in devices[name].consumes_counters
    }
    merged = replace(
        wanted,
        devices=tuple(
            replace(device, consumes_counters=devices[device.name].consumes_counters)
            if device.name in held
            else device
            for device in wanted.devices
        ),
        counter_sets=_merged_sets(wanted.counter_sets, {name: sets[name] for name in kept if name in sets}),
    )
    return None if problems(merged) else merged


def _published(seen: Iterable[ResourceSlice]) -> tuple[dict[str, Device], dict[str, CounterSet]]:
    slices = current_slices(seen)
    devices = {device.name: device for item in slices for device in item.spec.devices}
    sets = {counter_set.name: counter_set for item in slices for counter_set in item.spec.shared_counters}
    return devices, sets


def _set_changed(
    consumption: CounterConsumption, old: Mapping[str, CounterSet], new: Mapping[str, CounterSet]
) -> bool:
    return old.get(consumption.counter_set) != new.get(consumption.counter_set)


def _merged_sets(wanted: Iterable[CounterSet], kept: Mapping[str, CounterSet]) -> tuple[CounterSet, ...]:
    merged = [kept.get(counter_set.name, counter_set) for counter_set in wanted]
    names = {counter_set.name for counter_set in merged}
    return (*merged, *(counter_set for name, counter_set in sorted(kept.items()) if name not in names))
