"""Rounds of prepare and kill -9 on a card that outlives processes, and checks after each.

`python -m tests.drivers.fpga.rounds FOLDER SEED ROUNDS`. Each life of the driver is a process forked from this
one, which has everything imported and no thread. It dies at a random step: a call of the hardware, before or
after it took effect, the moment at which a bitstream gets its name, a step of the SDK, or any moment at all.
The next life gets the same claims again, as a kubelet repeats them; then the card, the state, the CDI specs and
the folder of bitstreams must agree.
"""

import hashlib
import os
import random
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.testing import Harness, builders
from dradriver.testing.process import NodeProcess
from dradriver_fpga import FpgaConfig, FpgaDriver
from dradriver_fpga.bitstreams import BitstreamCache
from dradriver_fpga.card import Bitstream as Image
from dradriver_fpga.card.simulator import FpgaFileStore, SimulatedFpgas
from dradriver_fpga.card.simulator.hardware import Moment
from dradriver_fpga.configs import RequestedBitstream
from tests.drivers.fpga.bitstream_files import Bitstreams
from tests.drivers.fpga.nodes import QuickHardware
from tests.drivers.processes import run_forked

REGIONS = ("pci-0000-3b-00-0-region-0", "pci-0000-3b-00-0-region-1")


@dataclass
class ProcessKiller:
    """Ends the process at the so-and-so-many-th step that changes something."""

    remaining: int

    def step(self, *_: object) -> None:
        self.remaining -= 1
        if self.remaining <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(self, call: str, moment: Moment) -> None:
        if call in {"program", "programmed"}:
            self.step(moment)

    def install(self) -> None:
        finish = BitstreamCache._complete

        def finishing(cache: BitstreamCache, file: IO[bytes], path: Path) -> None:
            self.step()
            finish(cache, file, path)
            self.step()

        BitstreamCache._complete = finishing  # type: ignore[method-assign, assignment]
        NodeProcess._observe = lambda *_: self.step()  # type: ignore[method-assign]


@dataclass(frozen=True)
class RoundsNode:
    """A node's folder and its one card."""

    folder: Path

    def harness(self, death: ProcessKiller | None = None) -> Harness:
        def make() -> FpgaDriver:
            store = FpgaFileStore(self.folder / "cards.json")
            hook = death.hook if death else lambda *_: None
            settings = f"bitstreams: {{folder: {self.folder / 'images'}, allowUnsigned: true}}"
            return FpgaDriver(settings, QuickHardware(["pac"], store=store, speed=0.005, hook=hook))

        return Harness(make, self.folder)


def run_until_killed(
    world: RoundsNode, claims: Sequence[ResourceClaim], death: ProcessKiller, seconds: float
) -> None:
    death.install()
    if seconds:
        signal.setitimer(signal.ITIMER_REAL, seconds)  # the signal has no handler
    with world.harness(death) as node:
        for claim in claims:
            node.prepare(claim)


def verify_next_process(world: RoundsNode, claims: Sequence[ResourceClaim], images: Sequence[Image]) -> None:
    with world.harness() as node:
        answers = [node.prepare(claim) for claim in claims]
        (card,) = SimulatedFpgas(store=FpgaFileStore(world.folder / "cards.json")).cards()
        contents = [region.bitstream for region in card.regions]
        wanted = [image.sha256 for image in images]
        assert contents == wanted, f"the card holds {contents}, wanted is {wanted}"
        variables = [variable.partition("=")[2] for each in answers for variable in each.edits.env]
        assert variables == wanted, f"containers are told {variables}"
        assert node.prepared() == {claim.metadata.uid: "prepared" for claim in claims}
        assert len(node.spec_files()) == len(claims)
        for path in (node.driver.data_dir / "bitstreams").iterdir():
            whole = hashlib.sha256(path.read_bytes()).hexdigest() == path.name.partition("-")[0]
            assert whole or path.suffix == ".part", f"{path} is not what it is called"
        for claim in claims:
            node.unprepare(claim)


def main(world: RoundsNode, seed: int, rounds: int) -> None:
    rng = random.Random(seed)
    (world.folder / "images").mkdir()
    bitstreams = Bitstreams(world.folder / "images")
    choice = [bitstreams.fitting("pac", f"{number:032x}", size=2000 * number) for number in range(1, 5)]
    killed = 0
    for number in range(rounds):
        images = rng.sample(choice, k=len(REGIONS))
        claims = [claim_for(device, image, number) for device, image in zip(REGIONS, images, strict=True)]
        seconds = rng.uniform(0.05, 0.5) if rng.random() < 0.4 else 0.0
        death = ProcessKiller(10**6 if seconds else rng.randint(1, 20))
        status = run_forked(partial(run_until_killed, world, claims, death, seconds))
        ended = status in {0, -signal.SIGKILL, -signal.SIGALRM}
        assert ended, f"round {number}, SEED={seed}: a life ended with {status}"
        killed += status != 0
        status = run_forked(partial(verify_next_process, world, claims, images))
        assert status == 0, f"round {number}, SEED={seed}: the views differ"
    print(f"{rounds} rounds, {killed} kills")


def claim_for(device: str, image: Image, number: int) -> ResourceClaim:
    config = FpgaConfig(bitstream=RequestedBitstream(file=image.path.name, sha256=image.sha256))
    name, request = f"claim-{number}-{device[-1]}", builders.device_request(FpgaDriver.name)
    claim = builders.claim(request, name=name, configs=[builders.opaque(FpgaDriver.name, config)])
    result = DeviceResult(request=request.name, driver=FpgaDriver.name, pool=builders.NODE, device=device)
    return builders.allocated(claim, result, node_name=builders.NODE)


if __name__ == "__main__":
    main(RoundsNode(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3]))
