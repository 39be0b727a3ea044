"""Whenever the gate of counters changes, no two claims hold devices that share hardware.

With the gate on, a driver offers the partitions of its GPUs and each whole GPU; counters keep them apart. With
the gate off, it offers a fallback with devices that do not overlap (KEP-4815, Rollback). The test takes the
steps of the publisher as `dradriver.publish.pool_worker` does, with a scheduler that knows only published
devices and claims.
"""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.publish.features.dropped_fields import CONSUMES_COUNTERS, SHARED_COUNTERS, safe_part
from dradriver.publish.holds.pinned_changes import affected_devices, omitted_devices, pin_fallback, pin_pool
from dradriver.publish.holds.published_counters import PublishedCounters
from tests.properties.publish.test_no_change_overdraws_a_counter_set_that_is_in_use import (
    fits,
    observe,
    slice_of,
    taken,
)

GPUS = ("gpu-0", "gpu-1")
DROPPED = frozenset({CONSUMES_COUNTERS, SHARED_COUNTERS})


def part(gpu: str, name: str, memory: int) -> Device:
    return Device(name, consumes_counters=[CounterConsumption(gpu, {"n": memory})])


PARTITIONED = Pool(
    "pool",
    (
        *(part(gpu, f"{gpu}-{half}", 1) for gpu in GPUS for half in "ab"),
        *(part(gpu, gpu, 2) for gpu in GPUS),
        Device("nic"),
    ),
    tuple(CounterSet(gpu, {"n": 2}) for gpu in GPUS),
)
FALLBACKS = {
    "each GPU as a whole": [[gpu] for gpu in GPUS],
    "each GPU as a whole, under another name": [[f"{gpu}-fixed"] for gpu in GPUS],
    "all partitions": [[f"{gpu}-a", f"{gpu}-b"] for gpu in GPUS],
    "partitions of one GPU, the other as a whole": [["gpu-0-a", "gpu-0-b"], ["gpu-1"]],
}
"""By what they offer: per GPU the names of its devices."""


def hardware_of(device: str) -> set[str]:
    """Return the halves of GPUs that a device consists of, or the device itself."""
    gpu = device[: len("gpu-0")]
    if gpu not in GPUS:
        return {device}
    return {device} if device[-2:] in {"-a", "-b"} else {f"{gpu}-a", f"{gpu}-b"}


class History:
    """A pool, its slices on the server, the gate, and the devices that claims hold."""

    def __init__(self, *, gate: bool) -> None:
        self.gate = gate
        self.fallback = Pool("pool")
        self.server = Pool("pool")
        self.memory = PublishedCounters()
        self.held: set[str] = set()

    def publish(self) -> None:
        """Make one attempt of the publisher; a gate that is off hides counters until they are withdrawn."""
        if self.gate:
            affected = affected_devices(PARTITIONED, self.memory)
            pool = pin_pool(PARTITIONED, self.memory, affected & self.held).pool
            self.memory.forget(affected - self.held - {device.name for device in PARTITIONED.devices})
        else:
            held = omitted_devices(self.fallback, PARTITIONED, self.memory) & self.held
            pool = pin_fallback(self.fallback, self.memory, held) if held else self.fallback
            pool = safe_part(pool, DROPPED)
        if pool is not None:
            self.server = pool
            self.memory.record_stored(slice_of(pool).spec)
            self.memory.set_current(slice_of(pool).spec.devices)

    def switch(self, *, gate: bool, kind: str) -> None:
        self.gate = gate
        devices = tuple(Device(name) for names in FALLBACKS[kind] for name in names)
        self.fallback = Pool("pool", (*devices, Device("nic")))
        self.publish()

    def restart(self) -> None:
        self.memory = observe(self.server)
        self.publish()

    def allocate(self, names: Sequence[str]) -> None:
        """Allocate free published devices that, with the gate on, fit; check that none share hardware."""
        visible = {device.name: device for device in self.server.devices}
        for name in names:
            if name not in visible or name in self.held or (visible[name].consumes_counters and not self.gate):
                continue
            together = [visible[each] for each in (*self.held, name) if each in visible]
            if all(
                fits([used for device in together if (used := taken(device, each.name))], each)
                for each in self.server.counter_sets
            ):
                for other in self.held:
                    assert not hardware_of(name) & hardware_of(other), f"{name} beside {other}"
                self.held.add(name)


NAMES = sorted({d.name for d in PARTITIONED.devices} | {f"{gpu}-fixed" for gpu in GPUS})


@settings(max_examples=150)
@given(st.data())
def test_no_change_of_the_gate_gives_hardware_to_two_claims(data: st.DataObject) -> None:
    kinds = st.sampled_from(sorted(FALLBACKS))
    history = History(gate=data.draw(st.booleans()))
    history.switch(gate=history.gate, kind=data.draw(kinds))
    for _ in range(data.draw(st.integers(1, 8))):
        order = data.draw(st.permutations(NAMES))
        history.allocate(order[: data.draw(st.integers(1, 4))])
        event = data.draw(st.sampled_from(["gate", "gate", "restart", "release"]))
        if event == "gate":
            history.switch(gate=not history.gate, kind=data.draw(kinds))
        elif event == "restart":
            history.restart()
        elif history.held:
            history.held.discard(data.draw(st.sampled_from(sorted(history.held))))
            history.publish()
    history.allocate(data.draw(st.permutations(NAMES)))


def test_everything_is_published_once_nothing_is_held() -> None:
    for kind in FALLBACKS:
        history = History(gate=True)
        for gate in (True, False, True, False):
            history.switch(gate=gate, kind=kind)
            assert history.server == (PARTITIONED if gate else history.fallback)
            history.allocate(["gpu-0-a", "gpu-0", "gpu-1", "gpu-0-fixed"])
            history.switch(gate=not gate, kind=kind)
            history.held.clear()
            history.publish()
            assert history.server == (history.fallback if gate else PARTITIONED)
