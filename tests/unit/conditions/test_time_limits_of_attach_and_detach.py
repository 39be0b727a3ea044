"""If `attach` hangs, or `detach` fails or hangs, the pod gets another device, and an event reports it."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from dradriver.conditions.attaching import Attacher
from dradriver.control.queueing.waiting import SeenConditions
from dradriver.driver import AllocatedDevice, AttachError, Attachment, BindingClaim
from dradriver.kube import EVENTS
from dradriver.model.core.meta import Condition
from dradriver.runner.binding import BindingProcess
from tests.unit.conditions.fabric import ATTACHED, DRIVER, FAILED, READY, FabricDriver, Hardware, Lab, gpu
from tests.unit.conditions.node_driver import CardDriver, beside_a_kubelet


def stuck_attachments(process: Any, operation: str) -> float | None:
    labels = {"driver": DRIVER, "operation": operation}
    value: float | None = process.metrics.registry.get_sample_value("dradriver_stuck_attachments", labels)
    return value


async def wait_for_event(lab: Lab, reason: str) -> dict[str, Any]:
    """Wait for an event with this reason and return it."""
    while True:
        for each in (await lab.client.list(EVENTS, "default", into=dict[str, Any])).items:
            if each["reason"] == reason:
                return dict(each)
        await asyncio.sleep(0.02)


def conditions(lab: Lab) -> dict[str, Condition]:
    return {each.type: each for entry in lab.claim().status.devices for each in entry.conditions}


class DetachFails(FabricDriver):
    """`detach` fails for gpu-0 until `works` is set."""

    works = False

    async def detach(self, attachment: Attachment) -> None:
        if attachment.device == "gpu-0" and not self.works:
            raise RuntimeError("the latch is stuck")
        await super().detach(attachment)


async def test_a_failing_detach_does_not_delay_another_device_of_the_claim(
    lab: Lab, hardware: Hardware
) -> None:
    hardware.bad.add("gpu-0")
    async with lab.scheduler(), lab.driver(DetachFails(hardware)):
        await lab.pod()
        assert await lab.bound() == "gpu-1"
        assert set(hardware.attached) == {"gpu-1"}


async def test_a_failing_detach_is_reported_and_its_device_tainted_until_it_succeeds(
    lab: Lab, hardware: Hardware
) -> None:
    driver = DetachFails(hardware)
    async with lab.scheduler(), lab.driver(driver) as process:
        await lab.pod()
        assert await lab.bound() == "gpu-0"
        await lab.delete_pod()
        emitted = await wait_for_event(lab, "DetachFailed")
        assert emitted["involvedObject"]["name"] == "pod-1"
        assert "device gpu-0 of pool fabric" in emitted["message"]
        assert "the latch is stuck" in emitted["message"]
        assert stuck_attachments(process, "detach") == 1
        await lab.until(lambda *_: lab.tainted() == {"gpu-0"})
        (taint,) = lab.devices()["gpu-0"].taints
        assert (taint.key, taint.effect) == (f"{DRIVER}/detach-failed", "NoSchedule")
        await lab.pod("pod-2")
        assert await lab.bound("pod-2") == "gpu-1"
        driver.works = True
        await lab.until(lambda *_: not lab.tainted())
        assert stuck_attachments(process, "detach") == 0
        await lab.until(lambda _, claims: not claims["default/pod-1"].metadata.finalizers)
    assert set(hardware.attached) == {"gpu-1"}


async def test_a_failing_detach_is_repeated_while_its_device_cannot_be_tainted(
    lab: Lab, hardware: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server rejects writes of slices."""
    driver = DetachFails(hardware)
    async with lab.scheduler(), lab.driver(driver) as process:
        await lab.pod()
        await lab.bound()
        monkeypatch.setattr(process._quarantine, "_publish_again", lambda: None)
        await lab.delete_pod()
        await wait_for_event(lab, "DetachFailed")
        driver.works = True
        await lab.until(lambda _, claims: not claims["default/pod-1"].metadata.finalizers)
    assert not hardware.attached


class AttachHangs(FabricDriver):
    """`attach` never returns for gpu-0."""

    attach_timeout_seconds = 0.2

    async def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
        if device.name == "gpu-0":
            self.hardware.attached["gpu-0"] = (claim.uid, claim.node)
            await asyncio.get_running_loop().create_future()
        await super().attach(claim, device)


async def test_an_attach_that_exceeds_the_time_limit_is_a_failure_of_its_device(
    lab: Lab, hardware: Hardware
) -> None:
    """KEP-5007: a controller-side timeout is an attachment failure."""
    async with lab.scheduler(), lab.driver(AttachHangs(hardware)) as process:
        await lab.pod()
        assert await lab.bound() == "gpu-1"
        await lab.until(lambda *_: lab.tainted() == {"gpu-0"})
        emitted = await wait_for_event(lab, "AttachTimeout")
        assert emitted["message"] == "device gpu-0 of pool fabric: attach() did not return within 0.2 s"
        assert stuck_attachments(process, "attach") == 0
    assert set(hardware.attached) == {"gpu-1"}, "gpu-0 is detached"


async def test_an_attach_on_a_node_that_exceeds_the_time_limit_is_a_failure(
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
        await wait_for_event(lab, "AttachTimeout")


async def test_a_plain_attach_is_reported_at_the_time_limit_and_detached_after_its_end(
    lab: Lab, hardware: Hardware
) -> None:
    """A thread cannot be stopped."""
    may_return, limits = threading.Event(), iter((0.2,))

    class Blocking(FabricDriver):
        @property
        def attach_timeout_seconds(self) -> float:  # type: ignore[override]
            """Short only for the first call, which is for gpu-0."""
            return next(limits, 300.0)

        def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:  # type: ignore[override]
            if device.name == "gpu-0":
                may_return.wait()
            self.hardware.attach(device.name, claim.uid, claim.node)

    async with lab.scheduler(), lab.driver(Blocking(hardware)) as process:
        await lab.pod()
        try:
            await wait_for_event(lab, "AttachTimeout")
            assert await lab.bound() == "gpu-1"
            assert stuck_attachments(process, "attach") == 1
            assert ("detach", "gpu-0") not in hardware.log
        finally:
            may_return.set()
        await lab.until(lambda _, claims: "gpu-0" not in str(claims["default/pod-1"].metadata.annotations))
        assert stuck_attachments(process, "attach") == 0
    assert hardware.log[-2:] == [("attach", "gpu-0"), ("detach", "gpu-0")]
    assert set(hardware.attached) == {"gpu-1"}


async def test_an_error_of_a_plain_attach_whose_pod_is_gone_is_no_failure_of_the_device(
    lab: Lab, hardware: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_return, abandoned, started = threading.Event(), asyncio.Event(), threading.Event()
    abandon = Attacher._abandon

    def observe_abandon(attacher: Attacher, task: asyncio.Task[None]) -> None:
        abandon(attacher, task)
        abandoned.set()

    monkeypatch.setattr(Attacher, "_abandon", observe_abandon)

    class Blocking(FabricDriver):
        def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:  # type: ignore[override]
            started.set()
            may_return.wait()
            raise AttachError("the port is gone")

    async with lab.scheduler(), lab.driver(Blocking(hardware)):
        await lab.pod()
        await asyncio.to_thread(started.wait)
        await lab.delete_pod()
        try:
            await abandoned.wait()
        finally:
            may_return.set()
        await lab.until(lambda _, claims: not claims["default/pod-1"].metadata.finalizers)
        assert not lab.tainted()


async def test_a_detach_that_exceeds_the_time_limit_is_called_again(lab: Lab, hardware: Hardware) -> None:
    class DetachHangs(FabricDriver):
        attach_timeout_seconds = 0.2
        works = False

        async def detach(self, attachment: Attachment) -> None:
            if not self.works:
                await asyncio.get_running_loop().create_future()
            await super().detach(attachment)

    driver = DetachHangs(hardware)
    async with lab.scheduler(), lab.driver(driver):
        await lab.pod()
        await lab.bound()
        await lab.delete_pod()
        await wait_for_event(lab, "DetachFailed")
        driver.works = True
        await lab.until(lambda _, claims: not claims["default/pod-1"].metadata.finalizers)
    assert not hardware.attached


async def test_conditions_have_the_reason_attaching_while_attach_runs(lab: Lab, hardware: Hardware) -> None:
    """They are not True, no failure condition is True, and the scheduler knows that a controller sets them."""
    hardware.open.clear()
    seen = SeenConditions(lab.seen.claims)
    async with lab.scheduler(), lab.driver(FabricDriver(hardware, [gpu("gpu-0", ATTACHED, READY)])):
        await lab.pod()
        await lab.until(lambda _, claims: "default/pod-1" in claims and bool(conditions(lab)))
        reported = {kind: (each.status, each.reason) for kind, each in conditions(lab).items()}
        assert reported == dict.fromkeys((ATTACHED, READY), ("False", "Attaching"))
        assert FAILED not in reported
        assert seen.find_never_set([lab.claim()]) == []
        hardware.open.set()
        await lab.bound()


async def test_a_condition_that_is_true_before_a_restart_stays_true(lab: Lab, hardware: Hardware) -> None:
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
