"""`attach` that hangs, `detach` that fails or hangs: the pod gets another device, and people learn of it."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from dradriver.control.queueing.waiting import SeenConditions
from dradriver.driver import AllocatedDevice, Attachment, BindingClaim
from dradriver.kube import EVENTS
from dradriver.model.core.meta import Condition
from dradriver.runner.binding import BindingProcess
from tests.unit.conditions.fabric import ATTACHED, DRIVER, FAILED, READY, FabricDriver, Hardware, Lab, gpu
from tests.unit.conditions.test_a_nodes_driver_attaches_while_pods_wait import CardDriver, beside_a_kubelet


def stuck(process: Any, operation: str) -> float | None:
    labels = {"driver": DRIVER, "operation": operation}
    value: float | None = process.metrics.registry.get_sample_value("dradriver_stuck_attachments", labels)
    return value


async def event(lab: Lab, reason: str) -> dict[str, Any]:
    """Waits for an event of the claim."""
    while True:
        for each in (await lab.client.list(EVENTS, "default", into=dict[str, Any])).items:
            if each["reason"] == reason:
                found: dict[str, Any] = each
                return found
        await asyncio.sleep(0.02)


def conditions(lab: Lab) -> dict[str, Condition]:
    return {each.type: each for entry in lab.claim().status.devices for each in entry.conditions}


class Sticky(FabricDriver):
    """gpu-0 does not come off."""

    loose = False

    async def detach(self, attachment: Attachment) -> None:
        if attachment.device == "gpu-0" and not self.loose:
            raise RuntimeError("the latch is stuck")
        await super().detach(attachment)


async def test_a_device_that_does_not_come_off_holds_up_no_other_device_of_the_pod(
    lab: Lab, hardware: Hardware
) -> None:
    hardware.bad.add("gpu-0")
    async with lab.scheduler(), lab.driver(Sticky(hardware)):
        await lab.pod()
        assert await lab.bound() == "gpu-1"
        assert set(hardware.attached) == {"gpu-1"}


async def test_a_device_that_does_not_come_off_is_told_and_kept_from_new_claims_until_it_does(
    lab: Lab, hardware: Hardware
) -> None:
    driver = Sticky(hardware)
    async with lab.scheduler(), lab.driver(driver) as process:
        await lab.pod()
        assert await lab.bound() == "gpu-0"
        await lab.delete_pod()
        told = await event(lab, "DetachFailed")
        assert told["involvedObject"]["name"] == "pod-1"
        assert "device gpu-0 of pool fabric" in told["message"]
        assert "the latch is stuck" in told["message"]
        assert stuck(process, "detach") == 1
        await lab.until(lambda *_: lab.tainted() == {"gpu-0"})
        (taint,) = lab.devices()["gpu-0"].taints
        assert (taint.key, taint.effect) == (f"{DRIVER}/detach-failed", "NoSchedule")
        await lab.pod("pod-2")
        assert await lab.bound("pod-2") == "gpu-1"
        driver.loose = True
        await lab.until(lambda *_: not lab.tainted())
        assert stuck(process, "detach") == 0
        await lab.until(lambda _, claims: not claims["default/pod-1"].metadata.finalizers)
    assert set(hardware.attached) == {"gpu-1"}


class Hanging(FabricDriver):
    """gpu-0 does not come on."""

    attach_timeout_seconds = 0.2

    async def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
        if device.name == "gpu-0":
            self.hardware.attached["gpu-0"] = (claim.uid, claim.node)
            await asyncio.get_running_loop().create_future()
        await super().attach(claim, device)


async def test_an_attach_that_hangs_is_given_up_and_its_device_not_chosen_again(
    lab: Lab, hardware: Hardware
) -> None:
    """KEP-5007: a controller-side timeout is an attachment failure."""
    async with lab.scheduler(), lab.driver(Hanging(hardware)) as process:
        await lab.pod()
        assert await lab.bound() == "gpu-1"
        await lab.until(lambda *_: lab.tainted() == {"gpu-0"})
        told = await event(lab, "AttachTimeout")
        assert told["message"] == "device gpu-0 of pool fabric: attach() did not return within 0.2 s"
        assert stuck(process, "attach") == 0
    assert set(hardware.attached) == {"gpu-1"}, "what was half attached is detached"


async def test_a_nodes_attach_that_hangs_is_given_up(
    lab: Lab, hardware: Hardware, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = asyncio.get_running_loop().create_future()
    attach = CardDriver.attach

    async def hang(self: CardDriver, claim: BindingClaim, device: AllocatedDevice) -> None:
        await (hung if device.name == "half-0" else attach(self, claim, device))

    monkeypatch.setattr(CardDriver, "attach", hang)
    monkeypatch.setattr(CardDriver, "attach_timeout_seconds", 0.2)
    (tmp_path / "registry").mkdir()
    async with lab.scheduler(), beside_a_kubelet(lab, hardware, tmp_path):
        await lab.pod()
        assert await lab.bound() == "half-1"
        await event(lab, "AttachTimeout")


async def test_a_plain_attach_that_hangs_is_told_at_once_and_its_device_detached_when_it_has_ended(
    lab: Lab, hardware: Hardware
) -> None:
    """A thread can't be stopped."""
    let_go = threading.Event()

    class Blocking(FabricDriver):
        attach_timeout_seconds = 0.2

        def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:  # type: ignore[override]
            if device.name == "gpu-0":
                let_go.wait()
            self.hardware.attach(device.name, claim.uid, claim.node)

    async with lab.scheduler(), lab.driver(Blocking(hardware)) as process:
        await lab.pod()
        try:
            await event(lab, "AttachTimeout")
            assert await lab.bound() == "gpu-1"
            assert stuck(process, "attach") == 1
            assert ("detach", "gpu-0") not in hardware.log
        finally:
            let_go.set()
        await lab.until(lambda _, claims: "gpu-0" not in str(claims["default/pod-1"].metadata.annotations))
        assert stuck(process, "attach") == 0
    assert hardware.log[-2:] == [("attach", "gpu-0"), ("detach", "gpu-0")]
    assert set(hardware.attached) == {"gpu-1"}


async def test_a_detach_that_hangs_is_called_again(lab: Lab, hardware: Hardware) -> None:
    class Sleepy(FabricDriver):
        attach_timeout_seconds = 0.2
        awake = False

        async def detach(self, attachment: Attachment) -> None:
            if not self.awake:
                await asyncio.get_running_loop().create_future()
            await super().detach(attachment)

    driver = Sleepy(hardware)
    async with lab.scheduler(), lab.driver(driver):
        await lab.pod()
        await lab.bound()
        await lab.delete_pod()
        await event(lab, "DetachFailed")
        driver.awake = True
        await lab.until(lambda _, claims: not claims["default/pod-1"].metadata.finalizers)
    assert not hardware.attached


async def test_conditions_say_that_attach_has_begun(lab: Lab, hardware: Hardware) -> None:
    """Progress, not failure; and somebody is known to set them."""
    hardware.open.clear()
    seen = SeenConditions(lab.seen.claims)
    async with lab.scheduler(), lab.driver(FabricDriver(hardware, [gpu("gpu-0", ATTACHED, READY)])):
        await lab.pod()
        await lab.until(lambda _, claims: "default/pod-1" in claims and bool(conditions(lab)))
        told = {kind: (each.status, each.reason) for kind, each in conditions(lab).items()}
        assert told == dict.fromkeys((ATTACHED, READY), ("False", "Attaching"))
        assert FAILED not in told
        assert seen.never_set([lab.claim()]) == []
        hardware.open.set()
        await lab.bound()


async def test_a_step_that_was_done_before_a_restart_stays_done(lab: Lab, hardware: Hardware) -> None:
    class Stepwise(FabricDriver):
        async def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
            if ATTACHED not in done:
                await claim.conditions.set(device, ATTACHED, True, "Linked")
            await super().attach(claim, device)

    done: set[str] = set()
    hardware.open.clear()
    driver = Stepwise(hardware, [gpu("gpu-0", ATTACHED, READY)])
    async with lab.scheduler():
        async with lab.driver(driver):
            await lab.pod()
            await lab.until(
                lambda _, claims: (
                    "default/pod-1" in claims and any(c.status == "True" for c in conditions(lab).values())
                )
            )
        done.add(ATTACHED)
        async with lab.driver(driver) as process:
            assert isinstance(process, BindingProcess)
            hardware.open.set()
            await lab.bound()
    linked = conditions(lab)[ATTACHED]
    assert linked.status == "True"
