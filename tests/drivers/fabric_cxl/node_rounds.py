"""Rounds of attach, take back and kill -9 on memory that outlives processes, and checks after each.

`python -m tests.drivers.fabric_cxl.node_rounds FOLDER SEED ROUNDS`. Each life of the driver is a process forked
from this one, which has everything imported and no thread. It dies at a random step: a change of the kernel,
before or after it took effect, a write of a record, or any moment at all. The last life of a round finishes the
claim's work, or takes it back; then the kernel and the records must agree.
"""

import asyncio
import os
import random
import signal
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dradriver_fabric_cxl.accelerator.simulator import AcceleratorFileStore, SimulatedAccelerators
from dradriver_fabric_cxl.memory import MemoryMode
from dradriver_fabric_cxl.memory.simulator import MemoryFileStore, MemoryHook
from dradriver_fabric_cxl.node.records import DeviceRecord, RecordStore
from tests.drivers.fabric_cxl.cxl_nodes import GIB, MEMORY, CxlNode, accelerator, binding_claim, claim, memory
from tests.drivers.processes import run_forked

MAX_STEPS = 90
"""More than the steps of an attach and an unprepare."""


@dataclass
class StepKiller:
    """Ends the process at the so-and-so-many-th step that changes something."""

    remaining: int

    def step(self, *_: object) -> None:
        self.remaining -= 1
        if self.remaining <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        put, remove, sync = RecordStore.put, RecordStore.remove, RecordStore._sync

        def putting(records: RecordStore, record: DeviceRecord) -> None:
            self.step()
            put(records, record)
            self.step()

        def removing(records: RecordStore, record: DeviceRecord) -> None:
            self.step()
            remove(records, record)
            self.step()

        def syncing(records: RecordStore) -> None:
            self.step()
            sync(records)

        RecordStore.put = putting  # type: ignore[method-assign, assignment]
        RecordStore.remove = removing  # type: ignore[method-assign, assignment]
        RecordStore._sync = syncing  # type: ignore[method-assign, assignment]


@dataclass(frozen=True)
class Round:
    """What the lives of a round do."""

    folder: Path
    boot: str
    uid: str
    mode: MemoryMode

    def node(self, killer: StepKiller | None = None) -> CxlNode:
        hook = killer.step if killer else lambda *_: None
        return make_node(self.folder, self.boot, hook)

    async def live(self, killer: StepKiller) -> None:
        killer.install()
        device = memory(mode=self.mode.value)
        own = claim(device, accelerator(), uid=self.uid)
        async with self.node(killer).running() as driver:
            await driver.attach(binding_claim(own), device)
            await driver.prepare(own)
            await driver.unprepare(own)

    async def finish(self, *, prepare: bool) -> None:
        node = self.node()
        own = claim(memory(mode=self.mode.value), accelerator(), uid=self.uid)
        async with node.running() as driver:
            if prepare:
                await driver.prepare(own)
                assert node.mode() is self.mode, f"the mode is {node.mode()}"
                assert node.memory.is_clear(MEMORY), "the claim sees what another one left"
                assert len(node.records) == 2, node.records
            await driver.unprepare(own)
            assert not node.records, node.records
            assert not await driver.prepared_claims()
        assert node.memory.phantom_bytes == 0, "memory in use was removed"
        with MemoryFileStore(self.folder / "memory.json").change() as state:
            assert not state.regions, state.regions
            assert not state.claimed, state.claimed
            assert not any(each.reserved for each in state.memdevs), state.memdevs


def make_node(folder: Path, boot: str = "boot", hook: MemoryHook = lambda *_: None) -> CxlNode:
    """A node whose hardware all processes share."""
    return CxlNode(
        folder,
        "{systemRam: true, waitSeconds: 300}",
        boot,
        hook,
        MemoryFileStore(folder / "memory.json"),
        SimulatedAccelerators(AcceleratorFileStore(folder / "accelerators.json")),
    )


def run_until_killed(this: Round, killer: StepKiller, seconds: float) -> None:
    if seconds:
        signal.setitimer(signal.ITIMER_REAL, seconds)  # the signal has no handler
    asyncio.run(this.live(killer))


def main(folder: Path, seed: int, rounds: int) -> None:
    rng = random.Random(seed)
    node = make_node(folder)
    node.plug_all()
    killed = 0
    boot = "boot"
    for number in range(rounds):
        this = Round(folder, boot, f"uid-{number}", rng.choice(list(MemoryMode)))
        for _ in range(rng.randint(1, 3)):
            seconds = rng.uniform(0.001, 0.1) if rng.random() < 0.3 else 0.0
            killer = StepKiller(10**6 if seconds else rng.randint(1, MAX_STEPS))
            status = run_forked(partial(run_until_killed, this, killer, seconds))
            ended = status in {0, -signal.SIGKILL, -signal.SIGALRM}
            assert ended, f"round {number}, SEED={seed}: a life ended with {status}"
            killed += status != 0
        if rng.random() < 0.2:
            node.memory.reboot()
            boot += "+"
            this = Round(folder, boot, this.uid, this.mode)
        prepare = rng.random() < 0.5
        status = run_forked(lambda this=this, prepare=prepare: asyncio.run(this.finish(prepare=prepare)))  # type: ignore[misc]
        assert status == 0, f"round {number}, SEED={seed}: the views differ"
        node.memory.unplug(MEMORY)
        node.memory.plug(MEMORY, GIB)
    print(f"{rounds} rounds, {killed} kills")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
