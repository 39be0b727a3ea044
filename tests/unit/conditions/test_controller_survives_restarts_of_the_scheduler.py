"""The scheduler is restarted at random times beside a driver whose `attach` sometimes fails."""

import asyncio
import random

from dradriver.driver import AllocatedDevice, AttachError, BindingClaim
from dradriver.kube import PODS
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.seeds import choose_seed
from tests.unit.conditions.fabric import FabricDriver, Hardware, Lab, gpu


async def test_no_two_claims_have_one_device_and_nothing_stays_attached(lab: Lab, hardware: Hardware) -> None:
    seed = choose_seed()
    print(f"seed {seed}")
    chance = random.Random(seed)

    class SometimesFails(FabricDriver):
        quarantine_seconds = 0.2

        async def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
            await asyncio.sleep(chance.random() * 0.03)
            if chance.random() < 0.2:
                raise AttachError("no link")
            await super().attach(claim, device)

    held: dict[str, str] = {}
    twice: list[str] = []

    def watch(_kind: object, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for result in old.results if old else ():
            held.pop(result.device, None)
        for result in new.results if new else ():
            if result.device in held:
                twice.append(f"{result.device}: {held[result.device]} and {new.ref if new else ''}")
            held[result.device] = new.ref if new else ""

    lab.seen.claims.subscribe(watch)
    names = [f"pod-{i}" for i in range(4)]
    async with lab.driver(SometimesFails(hardware, [gpu(f"gpu-{i}") for i in range(5)])):
        for name in names:
            pod = builders.pod(name=name, templates=["template"])
            await lab.client.create(PODS, pod, "default", into=dict)
        for _ in range(8):
            async with lab.scheduler():
                await asyncio.sleep(chance.random() * 0.1)
        async with lab.scheduler():
            await lab.until(lambda pods, _: len(pods) == 4 and all(pod.spec.node_name for pod in pods.values()))
            await lab.until(lambda *_: len(held) == 4)  # another watch
            for name in names:
                await lab.delete_pod(name)
            await lab.until(lambda _, claims: not claims)
    assert not twice
    assert not hardware.attached
