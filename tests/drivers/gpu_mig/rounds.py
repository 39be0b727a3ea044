"""Rounds of prepare, unprepare and kill -9 on cards that outlive processes, and what is left after each.

`python -m tests.drivers.gpu_mig.rounds FOLDER SEED ROUNDS [LIBRARY]`: on cards of the simulator that are a
file, or of the shim of libnvidia-ml behind pynvml. Each life of the driver is a process forked from this one,
which has everything imported and no thread. It dies at a random step: a call of the hardware, before or after
it took effect, a write of a record, or a step of the SDK. The next life gets the calls again that were begun,
as a kubelet repeats them; then the cards, the drivers of PCI functions, the records, the SDK's state and the
folder of CDI specs must agree. The first card is divided; the second one is passed to a virtual machine, by a
fake kernel whose files outlive processes, too. Claims of two slots share a device. Some claims have an MPS
control daemon, of a simulated host whose files outlive processes.
"""

import os
import random
import signal
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, cast

from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.testing import Harness, builders
from dradriver.testing.process import NodeProcess
from dradriver_gpu_mig import GpuDriver, MigDeviceConfig
from dradriver_gpu_mig.card import GpuHardware
from dradriver_gpu_mig.card.nvml import NvmlGpus
from dradriver_gpu_mig.card.simulator import GpuFileStore, SimulatedGpus
from dradriver_gpu_mig.card.simulator.views import make_uuid
from dradriver_gpu_mig.configs import MigSharing, MpsConfig
from dradriver_gpu_mig.instances import RecordStore
from dradriver_gpu_mig.mps import MpsDaemonStore, SimulatedMpsHost
from tests.drivers.gpu_mig.passthrough.kernel import FakeKernel
from tests.drivers.gpu_mig.shim.controls import ShimControls
from tests.drivers.processes import run_forked

GPU: Final = "gpu-0000-07-00-0-mig-"
SHARED: Final = ("2g-10gb-2",)
"""The device that claims of two slots share."""
# All other slots have memory slices of their own, so that claims of different slots never overlap.
SLOTS: Final = (
    ("3g-20gb-4", "2g-10gb-4", "1g-10gb-6", "1g-5gb-5"),
    ("1g-5gb-0", "1g-5gb-1", "1g-10gb-0", "2g-10gb-0"),
    SHARED,
    SHARED,
    ("gpu-0000-0f-00-0-vfio",),
)
CARDS: Final = ("a100-40", "t4")
PASSED: Final = "0000:0f:00.0"
FUNCTIONS: Final = {PASSED: "nvidia", "0000:0f:00.1": "snd_hda_intel"}
MPS: Final = MigDeviceConfig(
    sharing=MigSharing(strategy="MPS", mps_config=MpsConfig(default_active_thread_percentage=30))
)
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
CHANGES: Final = (
    "create_gpu_instance",
    "create_compute_instance",
    "destroy_gpu_instance",
    "destroy_compute_instance",
)


@dataclass(frozen=True)
class Call:
    """A call of the kubelet."""

    slot: int
    claim: ResourceClaim
    prepare: bool

    def on(self, harness: Harness) -> None:
        (harness.prepare if self.prepare else harness.unprepare)(self.claim)


class ProcessKiller:
    """Ends the process at the so-and-so-many-th step; with `only`, of those that change something."""

    def __init__(self, at: int, *, only_changes: bool) -> None:
        self._remaining = at
        self._only_changes = only_changes

    def hook(self, call: str, _moment: str) -> None:
        self.step(changes=call in CHANGES)

    def step(self, *, changes: bool) -> None:
        if changes or not self._only_changes:
            self._remaining -= 1
            if self._remaining <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        """Steps before and after each write of a record, and at each step of the SDK."""
        for name in ("put", "delete"):
            setattr(RecordStore, name, self._around(getattr(RecordStore, name)))
        NodeProcess._observe = lambda *_: self.step(changes=True)  # type: ignore[method-assign]

    def _around(self, write: Callable[..., None]) -> Callable[..., None]:
        def watched(*arguments: object) -> None:
            self.step(changes=True)
            write(*arguments)
            self.step(changes=True)

        return watched


def make_claim(rng: random.Random, slot: int, number: int) -> ResourceClaim:
    name = rng.choice(SLOTS[slot])
    is_mig = not name.endswith("-vfio")
    configs = [builders.opaque(GpuDriver.name, MPS)] if is_mig and rng.random() < 0.6 else []
    claim = builders.claim(builders.device_request(GpuDriver.name), name=f"claim-{number}", configs=configs)
    result = DeviceResult(
        request=claim.spec.devices.requests[0].name,
        driver=GpuDriver.name,
        pool=builders.NODE,
        device=GPU + name if is_mig else name,
        share_id=str(uuid.UUID(int=rng.getrandbits(128))) if is_mig else None,
    )
    return builders.allocated(claim, result, node_name=builders.NODE)


def has_mps(claim: ResourceClaim) -> bool:
    return bool(claim.spec.devices.config)


class KillableHardware:
    """Hardware that steps before and after each call."""

    def __init__(self, hardware: GpuHardware, death: ProcessKiller) -> None:
        self._hardware, self._death = hardware, death

    def __getattr__(self, name: str) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            self._death.hook(name, "before")
            answer: object = getattr(self._hardware, name)(*arguments, **options)
            self._death.hook(name, "after")
            return answer

        return call


@dataclass(frozen=True)
class RoundsNode:
    """A node's folder, and its two cards.

    Attributes:
        folder: everything that outlives processes.
        library: the shim; None for the simulator.
    """

    folder: Path
    library: Path | None

    def cards(self) -> GpuHardware:
        if self.library is not None:
            return NvmlGpus(self.library)
        return SimulatedGpus(CARDS, store=GpuFileStore(self.folder / "cards.json"))

    def kernel(self, death: ProcessKiller | None = None) -> FakeKernel:
        """The PCI functions. NVML knows the second card only while NVIDIA's driver has it."""

        def change(address: str, driver: str | None) -> None:
            if address == PASSED and self.library is None:
                cards = SimulatedGpus(CARDS, store=GpuFileStore(self.folder / "cards.json"))
                uuid = f"GPU-{make_uuid('node/1')}"
                (cards.reset if driver == "nvidia" else cards.remove)(uuid)
            elif address == PASSED and self.library is not None:
                controls = ShimControls(self.library)
                (controls.reset if driver == "nvidia" else controls.remove)(1)

        def write() -> None:
            if death is not None:
                death.step(changes=True)

        return FakeKernel(self.folder / "host/sys", change, write)

    def add_functions(self) -> None:
        """The functions of the second card."""
        for address, driver in FUNCTIONS.items():
            self.kernel().tree.add(address, 17, driver)
        (self.folder / "host/proc").mkdir()

    def mps_host(self, death: ProcessKiller | None = None) -> SimulatedMpsHost:
        step = None if death is None else partial(death.step, changes=True)
        return SimulatedMpsHost(self.mps_folder, step)

    @property
    def mps_folder(self) -> Path:
        return self.folder / "plugins" / GpuDriver.name / "driver" / "mps"

    def harness(self, death: ProcessKiller | None = None) -> Harness:
        def make() -> GpuDriver:
            cards = self.cards() if death is None else cast(GpuHardware, KillableHardware(self.cards(), death))
            host = f"{{sysfs: {self.folder}/host/sys, proc: {self.folder}/host/proc, dev: {self.folder}}}"
            sharing = "mps: {}, consumableShares: unlimited"
            settings = f"{{mode: dynamic, destroySeconds: 1, passthrough: true, {sharing}, host: {host}}}"
            return GpuDriver(settings, cards, self.kernel(death), self.mps_host(death))

        return Harness(make, self.folder)


def run_until_killed(world: RoundsNode, calls: Sequence[Call], death: ProcessKiller) -> None:
    death.install()
    with world.harness(death) as node:
        for number, call in enumerate(calls):
            (world.folder / "begun").write_text(str(number + 1))
            call.on(node)


def verify_next_process(world: RoundsNode, repeated: Sequence[Call], wanted: Sequence[ResourceClaim]) -> None:
    with world.harness() as node:
        for call in repeated:
            call.on(node)
        cards = world.cards()
        cards.open()
        gpu = cards.gpus()[0]
        names = {profile.id: profile.name for profile in cards.profiles(gpu.uuid)}
        on_card = sorted(
            f"{names[each.profile_id].replace('.', '-').replace('+', '-')}-{each.placement.start}"
            for each in cards.gpu_instances(gpu.uuid)
            if len(cards.mig_devices(gpu.uuid, each)) == 1
        )
        all_complete = len(cards.gpu_instances(gpu.uuid)) == len(on_card)
        tree = world.kernel().tree
        drivers = {address: tree.driver(address) for address in FUNCTIONS}
        if drivers == dict.fromkeys(FUNCTIONS, "vfio-pci"):
            on_card = sorted([*on_card, *SLOTS[-1]])
        else:
            assert drivers == FUNCTIONS
            assert {tree.override(address) for address in FUNCTIONS} == {"(null)"}
            assert len(cards.gpus()) == len(CARDS)
        records = RecordStore(node.driver.data_dir / "devices", BOOT_ID.read_text().strip()).all()
        recorded = sorted(record.device.removeprefix(GPU) for record in records)
        devices = sorted({claim.results[0].device.removeprefix(GPU) for claim in wanted})
        holders = {claim for record in records for claim in record.claims}
        assert node.driver.data_dir / "mps" == world.mps_folder
        daemons = {
            uid: world.mps_host().read(uid).answering for uid in MpsDaemonStore(world.mps_folder).claims()
        }
        uids = {claim.metadata.uid: "prepared" for claim in wanted}
        specs = node.spec_files()
        in_cdi = len(specs) == len(uids) and all(any(uid in spec for spec in specs) for uid in uids)
        views = f"wanted {devices}, cards {on_card}, records {recorded}, state {node.prepared()}, CDI {specs}"
        assert all_complete, views
        assert on_card == recorded == devices, views
        assert node.prepared() == uids, views
        assert in_cdi, views
        assert holders == uids.keys(), views
        assert daemons == {claim.metadata.uid: True for claim in wanted if has_mps(claim)}, (daemons, views)


def main(world: RoundsNode, seed: int, rounds: int) -> None:
    folder, rng = world.folder, random.Random(seed)
    world.add_functions()
    claims = [make_claim(rng, slot, slot) for slot in range(len(SLOTS))]
    present = [False] * len(SLOTS)
    killed = 0
    for number in range(rounds):
        calls: list[Call] = []
        for slot in rng.sample(range(len(SLOTS)), k=rng.randint(1, len(SLOTS))):
            if not present[slot]:
                claims[slot] = make_claim(rng, slot, len(SLOTS) + number)
            calls.append(Call(slot, claims[slot], not present[slot]))
        (folder / "begun").write_text("0")
        death = ProcessKiller(rng.randint(1, 30), only_changes=True)
        if rng.random() < 0.3:
            death = ProcessKiller(rng.randint(1, 150), only_changes=False)
        status = run_forked(partial(run_until_killed, world, calls, death))
        assert status in {0, -signal.SIGKILL}, f"round {number}, SEED={seed}: a life ended with {status}"
        killed += status != 0
        begun = calls[: int((folder / "begun").read_text() or 0)]
        for call in begun:
            present[call.slot] = call.prepare
        wanted = [claim for claim, there in zip(claims, present, strict=True) if there]
        status = run_forked(partial(verify_next_process, world, begun, wanted))
        assert status == 0, f"round {number}, SEED={seed}: the views differ"
    print(f"{rounds} rounds, {killed} kills")


if __name__ == "__main__":
    where = RoundsNode(Path(sys.argv[1]), Path(sys.argv[4]) if len(sys.argv) > 4 else None)
    main(where, int(sys.argv[2]), int(sys.argv[3]))
