"""Attachments of the hardware to which no claim refers are detached, at the start and later."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dradriver.conditions.orphans import OrphanCheck
from dradriver.driver import Attachment
from dradriver.errors import DraError
from dradriver.kube import CLAIMS, PODS, Client
from dradriver.kube.client import Listing
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.runner.binding import BindingProcess
from dradriver.testing import builders
from tests.unit.conditions.fabric import POOL, FabricDriver, Hardware, Lab, gpu

GONE = ("uid-of-a-deleted-claim", "node-2")


class Recording(FabricDriver):
    """Its hardware records the attachments.

    Attributes:
        asked: the number of calls of `attachments()`.
        errors: exceptions of the next calls.
        detached: devices whose `detach` has ended.
        may_detach: `detach` waits until this is set.
    """

    check_attachments_seconds = 0.01

    def __init__(self, hardware: Hardware, devices: Sequence[Device] = (gpu("gpu-0"), gpu("gpu-1"))) -> None:
        super().__init__(hardware, devices)
        self.asked = 0
        self.errors: list[Exception] = []
        self.detached: set[str] = set()
        self.may_detach = asyncio.Event()
        self.may_detach.set()
        self._changed = asyncio.Condition()

    async def attachments(self) -> list[Attachment]:
        await self._notify(asked=1)
        if self.errors:
            raise self.errors.pop()
        attached = self.hardware.attached.items()
        return [Attachment(uid, POOL, name, node=node) for name, (uid, node) in attached]

    async def detach(self, attachment: Attachment) -> None:
        self.hardware.log.append(("detach begins", attachment.device))
        await self.may_detach.wait()
        await super().detach(attachment)
        await self._notify(attachment.device)

    async def _notify(self, *detached: str, asked: int = 0) -> None:
        async with self._changed:
            self.asked += asked
            self.detached.update(detached)
            self._changed.notify_all()

    async def until(self, done: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(done)

    async def is_asked(self, times: int = 2) -> None:
        """Wait until further calls; the check that followed the first of two has ended."""
        wanted = self.asked + times
        await self.until(lambda: self.asked >= wanted)


@asynccontextmanager
async def process_with(lab: Lab, driver: FabricDriver, client_type: type[Client]) -> AsyncIterator[Client]:
    async with await client_type.connect(lab.kubeconfig) as client:
        task = asyncio.create_task(BindingProcess(driver, client).run(asyncio.Event()))
        try:
            yield client
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_an_orphan_that_appears_later_is_detached(lab: Lab, hardware: Hardware) -> None:
    driver = Recording(hardware)
    async with lab.scheduler(), lab.driver(driver):
        await lab.pod()
        await lab.bound()
        hardware.attached["gpu-1"] = GONE
        await driver.until(lambda: "gpu-1" in driver.detached)
        assert hardware.attached == {"gpu-0": (lab.claim().metadata.uid, "node-1")}


async def test_an_error_of_a_later_check_is_retried(lab: Lab, hardware: Hardware) -> None:
    driver = Recording(hardware)
    async with lab.driver(driver):
        await driver.is_asked()
        driver.errors.append(RuntimeError("no session"))
        hardware.attached["gpu-1"] = GONE
        await driver.until(lambda: "gpu-1" in driver.detached)
    assert not driver.errors


async def test_a_claim_that_the_cache_lacks_keeps_its_attachment(lab: Lab, hardware: Hardware) -> None:
    """The watch is behind: the claims are read from the API server."""

    class Behind(Client):
        async def watch(self, resource: Any, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
            if resource is CLAIMS:
                await asyncio.get_running_loop().create_future()
            async for event in super().watch(resource, *args, **kwargs):
                yield event

    driver = Recording(hardware)
    async with lab.scheduler(), process_with(lab, driver, Behind):
        await driver.is_asked()
        await lab.pod()
        await lab.waits()
        hardware.attached |= {"gpu-0": (lab.claim().metadata.uid, "node-1"), "gpu-1": GONE}
        await driver.until(lambda: "gpu-1" in driver.detached)
        await driver.is_asked()
    assert driver.detached == {"gpu-1"}


async def test_a_device_that_is_attached_after_the_list_is_kept(lab: Lab, hardware: Hardware) -> None:
    """The claim of an orphan gets the same device while the answer to the list is under way."""
    listed, answer = asyncio.Event(), asyncio.Event()
    driver = Recording(hardware)

    class Slow(Client):
        async def list(self, resource: Any, *args: Any, **kwargs: Any) -> Any:
            listing = await super().list(resource, *args, **kwargs)
            if resource is CLAIMS and hardware.attached:
                listed.set()
                await answer.wait()
            return listing

    async with lab.scheduler(), process_with(lab, driver, Slow):
        created = await lab.client.create(CLAIMS, builders.claim(name="pod-1"), "default", into=ResourceClaim)
        await driver.is_asked()
        hardware.attached["gpu-0"] = (created.metadata.uid, "node-1")
        await listed.wait()
        await lab.client.create(PODS, builders.pod("pod-1", name="pod-1"), "default", into=dict)
        assert await lab.bound() == "gpu-0"
        answer.set()
        await driver.is_asked()
    assert not driver.detached


async def test_a_recorded_attachment_is_not_detached_twice_at_a_time(lab: Lab, hardware: Hardware) -> None:
    driver = Recording(hardware)
    async with lab.scheduler(), lab.driver(driver):
        await lab.pod()
        await lab.bound()
        driver.may_detach.clear()
        await lab.delete_pod()
        await lab.until(lambda _, claims: claims["default/pod-1"].allocation is None)
        await driver.is_asked(3)
        driver.may_detach.set()
        await lab.until(lambda _, claims: not claims["default/pod-1"].metadata.finalizers)
    assert hardware.log.count(("detach begins", "gpu-0")) == 1


async def test_nothing_is_detached_while_a_claim_cannot_be_read(lab: Lab, hardware: Hardware) -> None:
    driver = Recording(hardware)
    unreadable = {"default/broken": DraError("not a claim")}

    class Broken(Client):
        async def list(self, resource: Any, *args: Any, **kwargs: Any) -> Any:
            listing = await super().list(resource, *args, **kwargs)
            if resource is CLAIMS and driver.asked:
                return Listing(listing.items, listing.resource_version, unreadable)
            return listing

    hardware.attached["gpu-1"] = GONE
    async with process_with(lab, driver, Broken):
        await driver.is_asked(3)
        assert not driver.detached
        unreadable.clear()
        await driver.until(lambda: "gpu-1" in driver.detached)


class Latched(Recording):
    """`detach` fails for gpu-0 until `works` is set."""

    works = False

    async def detach(self, attachment: Attachment) -> None:
        if attachment.device == "gpu-0" and not self.works:
            raise RuntimeError("the latch is stuck")
        await super().detach(attachment)


async def test_an_orphan_that_cannot_be_detached_delays_no_other_device(lab: Lab, hardware: Hardware) -> None:
    hardware.attached |= {"gpu-0": GONE, "gpu-1": GONE}
    driver = Latched(hardware)
    async with lab.scheduler(), lab.driver(driver):
        await driver.until(lambda: "gpu-1" in driver.detached)
        await lab.until(lambda *_: lab.tainted() == {"gpu-0"})
        await lab.pod()
        assert await lab.bound() == "gpu-1"
        assert hardware.attached["gpu-0"] == GONE
        driver.works = True
        await lab.until(lambda *_: not lab.tainted())
    assert "gpu-0" not in hardware.attached


async def test_a_device_is_not_attached_before_its_orphan_is_detached(lab: Lab, hardware: Hardware) -> None:
    """The claim was allocated before the process started. Another attach would be an assertion error."""
    driver = Latched(hardware, [gpu("gpu-0")])
    async with lab.scheduler():
        async with lab.driver(driver):
            await lab.until(lambda *_: "gpu-0" in lab.devices())
        await lab.pod()
        await lab.waits()
        hardware.attached["gpu-0"] = GONE
        async with lab.driver(driver):
            await lab.until(lambda *_: lab.tainted() == {"gpu-0"})
            await driver.is_asked()
            assert ("attach", "gpu-0") not in hardware.log
            driver.works = True
            assert await lab.bound() == "gpu-0"
    assert hardware.attached == {"gpu-0": (lab.claim().metadata.uid, "node-1")}


async def test_pods_get_an_answer_while_the_hardware_lists_nothing(
    lab: Lab, hardware: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fabric manager is down: `attach` fails, and the pod's claim has the reason."""
    monkeypatch.setattr(OrphanCheck, "first_check_seconds", 0.01)

    class Down(Recording):
        async def attachments(self) -> list[Attachment]:
            raise RuntimeError("no session")

    reasons: set[str] = set()
    lab.seen.claims.subscribe(
        lambda _kind, _old, new: reasons.update(
            each.reason for entry in (new.status.devices if new else []) for each in entry.conditions
        )
    )
    hardware.bad |= {"gpu-0", "gpu-1"}
    async with lab.scheduler(), lab.driver(Down(hardware)):
        await lab.pod()
        await lab.until(lambda *_: "NoLink" in reasons)


async def test_a_stop_waits_for_the_detach_of_an_orphan(lab: Lab, hardware: Hardware) -> None:
    hardware.attached["gpu-0"] = GONE
    driver = Recording(hardware)
    driver.may_detach.clear()
    async with lab.driver(driver):
        await driver.is_asked()
        assert ("detach begins", "gpu-0") in hardware.log
    assert not [each for each in asyncio.all_tasks() if "orphan" in each.get_name()]


class Tagged(Recording):
    """Its hardware keeps an object for each allocation.

    Attributes:
        earlier: the object of an earlier allocation.
        times: the times of the allocations whose object was removed.
    """

    def __init__(self, hardware: Hardware) -> None:
        super().__init__(hardware)
        self.earlier: Attachment | None = None
        self.times: list[str] = []

    async def attachments(self) -> list[Attachment]:
        return [*await super().attachments(), *([self.earlier] if self.earlier else [])]

    async def detach(self, attachment: Attachment) -> None:
        assert attachment == self.earlier
        self.earlier = None
        self.times.append(attachment.allocated)
        await self._notify()


async def bind_with_earlier_attachment(lab: Lab, driver: Tagged, time: str) -> str:
    """Bind a pod, and let the hardware keep an earlier attachment of its device; return the device."""
    await lab.pod()
    device = await lab.bound()
    driver.earlier = Attachment(lab.claim().metadata.uid, POOL, device, node="node-1", allocated=time)
    return device


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"])
async def test_an_orphan_of_an_earlier_allocation_is_detached_while_the_claim_has_the_device_again(
    lab: Lab, hardware: Hardware, time: str
) -> None:
    driver = Tagged(hardware)
    async with lab.scheduler(), lab.driver(driver):
        device = await bind_with_earlier_attachment(lab, driver, time)
        await driver.until(lambda: bool(driver.times))
    assert driver.times == [time]
    assert hardware.attached == {device: (lab.claim().metadata.uid, "node-1")}


@pytest.mark.parametrize("time", ["", "yesterday", "2026-01-01T00:00:00"])
async def test_an_attachment_without_a_valid_time_belongs_to_any_allocation(
    lab: Lab, hardware: Hardware, time: str
) -> None:
    driver = Tagged(hardware)
    async with lab.scheduler(), lab.driver(driver):
        await bind_with_earlier_attachment(lab, driver, time)
        await driver.is_asked(3)
    assert not driver.times


async def test_an_orphan_that_was_replaced_by_the_next_allocation_is_not_detached(
    lab: Lab, hardware: Hardware
) -> None:
    """The hardware keeps one record for a device, and the answer of the hardware was late."""

    class Late(Tagged):
        async def attachments(self) -> list[Attachment]:
            found = await super().attachments()
            self.earlier = None
            return found

    driver = Late(hardware)
    async with lab.scheduler(), lab.driver(driver):
        await lab.pod()
        device = await lab.bound()
        old = "2026-01-01T00:00:00Z"
        driver.earlier = Attachment(lab.claim().metadata.uid, POOL, device, node="node-1", allocated=old)
        await driver.is_asked(3)
    assert not driver.times
