"""A process that prepares and unprepares until it is killed; its hardware is a folder.

python -m tests.unit.node.killed FOLDER SEED
"""

import asyncio
import random
import sys
from pathlib import Path

from dradriver.driver import Claim
from dradriver.errors import DraError
from dradriver.model.cdi import ContainerEdits
from dradriver.model.resource.claim import ResourceClaim
from tests.unit.node.world import Answers, LampDriver, World, allocated, ref

CLAIMS = 6


class FolderDriver(LampDriver):
    """Its hardware is one file for each claim; a partly written file is found again."""

    def __init__(self, folder: Path) -> None:
        super().__init__({})
        self.folder = folder
        folder.mkdir(exist_ok=True)

    async def prepare(self, claim: Claim) -> Answers:
        (self.folder / claim.uid).write_text(claim.devices[0].name)
        return {device: ContainerEdits(env={"LAMP": device.name}) for device in claim.devices}

    async def unprepare(self, claim: Claim) -> None:
        (self.folder / claim.uid).unlink(missing_ok=True)

    def prepared_claims(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}


def claims() -> list[ResourceClaim]:
    return [allocated(f"claim-{n}", f"lamp-{n // 2}", uid=f"uid-{n}") for n in range(CLAIMS)]


async def work(root: Path, seed: int) -> None:
    chance = random.Random(seed)
    world, known = World(root), claims()
    process = await world.start(driver=FolderDriver(root / "hardware"))

    async def one(claim: ResourceClaim) -> None:
        while True:
            try:
                await process.prepare(claim)
            except DraError:
                await asyncio.sleep(0)
            if chance.random() < 0.5:
                await process.unprepare(ref(claim))

    print("working", flush=True)
    await asyncio.gather(*map(one, known))


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2])))
