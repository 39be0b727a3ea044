"""A binding driver and the scheduler on one API server."""

import asyncio
import re
from collections.abc import Mapping

import pytest

from dradriver.cluster.apiserver import Fault
from dradriver.driver import AllocatedDevice, Attachment, BindingClaim
from dradriver.kube import CLAIMS, PODS, PatchKind, Unavailable
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.unit.conditions.fabric import ATTACHED, DRIVER, FAILED, READY, FabricDriver, Hardware, Lab, gpu


async def test_a_pod_is_bound_after_attach_and_its_device_is_detached_after_the_pod(
    lab: Lab, hardware: Hardware
) -> None:
    hardware.open.clear()
    async with lab.scheduler(), lab.driver(FabricDriver(hardware)):
        await lab.pod()
        await lab.waits()
        assert not hardware.attached
        hardware.open.set()
        assert await lab.bound() == "gpu-0"
        claim = lab.claim()
        assert hardware.attached == {"gpu-0": (claim.metadata.uid, "node-1")}
        await lab.delete_pod()
        await lab.until(lambda _, claims: not claims["default/pod-1"].metadata.finalizers)
        assert not hardware.attached
        assert not lab.claim().metadata.annotations


async def test_attach_and_detach_are_logged(
    lab: Lab, hardware: Hardware, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dradriver.conditions")
    async with lab.scheduler(), lab.driver(FabricDriver(hardware)):
        await lab.pod()
        await lab.bound()
        await lab.delete_pod()
        await lab.until(lambda _, claims: not claims["default/pod-1"].metadata.finalizers)
    records = [each for each in caplog.records if each.name.startswith("dradriver.conditions")]
    assert [re.sub(r"[\d.]+ s$", "0.1 s", each.getMessage()) for each in records] == [
        f"attached device {DRIVER}/fabric/gpu-0 for claim default/pod-1 in 0.1 s",
        f"detached device {DRIVER}/fabric/gpu-0 of claim default/pod-1",
    ]


async def test_the_second_attempt_uses_another_device(lab: Lab, hardware: Hardware) -> None:
    """KEP-5007: the controller should ensure that the failed device is not picked again."""
    hardware.bad.add("gpu-0")
    taints_at_failure: list[set[str]] = []

    def watch(_kind: object, _old: object, new: ResourceClaim | None) -> None:
        types = {c.type for entry in (new.status.devices if new else ()) for c in entry.conditions}
        if FAILED in types:
            taints_at_failure.append(lab.tainted())

    async with lab.scheduler(), lab.driver(FabricDriver(hardware)):
        lab.seen.claims.subscribe(watch)
        await lab.pod()
        assert await lab.bound() == "gpu-1"
    assert [each for each in hardware.log if each[0] == "attach"] == [("attach", "gpu-0"), ("attach", "gpu-1")]
    assert taints_at_failure
    assert lab.tainted() == {"gpu-0"}
    assert set(hardware.attached) == {"gpu-1"}


async def test_a_rejected_condition_does_not_taint_the_device(lab: Lab, hardware: Hardware) -> None:
    """`attach` is called again for the same device."""

    class Reporting(FabricDriver):
        refused = False

        async def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
            await super().attach(claim, device)
            if not self.refused:
                self.refused = True
                raise Unavailable("unavailable", status=503)
            await claim.conditions.set(device, READY, True, "Ready")

    async with lab.scheduler(), lab.driver(driver := Reporting(hardware)):
        await lab.pod()
        assert await lab.bound() == "gpu-0"
    assert driver.refused
    assert not lab.tainted()


async def test_a_pod_with_only_a_failed_device_is_not_retried_at_once(lab: Lab, hardware: Hardware) -> None:
    hardware.bad.add("gpu-0")
    async with lab.scheduler(), lab.driver(FabricDriver(hardware, [gpu("gpu-0")])):
        await lab.pod()

        def messages(pods: Mapping[str, Pod]) -> str:
            pod = pods.get("default/pod-1", Pod())
            return " ".join(condition.message for condition in pod.status.conditions)

        await lab.until(lambda pods, _: "taint" in messages(pods))
        await lab.until(lambda _, claims: not claims["default/pod-1"].metadata.finalizers)
    assert len([each for each in hardware.log if each[0] == "attach"]) <= 2
    assert not hardware.attached


async def test_the_taint_ends_after_quarantine_seconds(lab: Lab, hardware: Hardware) -> None:
    class ShortQuarantine(FabricDriver):
        quarantine_seconds = 0.3

    hardware.bad.add("gpu-0")
    async with lab.scheduler(), lab.driver(ShortQuarantine(hardware, [gpu("gpu-0")])):
        await lab.pod()
        await lab.until(lambda *_: lab.tainted() == {"gpu-0"})
        hardware.bad.clear()
        assert await lab.bound() == "gpu-0"
        await lab.until(lambda *_: not lab.tainted())


async def test_the_time_of_the_taint_begins_when_it_is_published(lab: Lab, hardware: Hardware) -> None:
    """Also if the API server stores it later than quarantine_seconds after the failure."""

    class ShortQuarantine(FabricDriver):
        quarantine_seconds = 0.05

    stores, tainted = asyncio.Event(), set[str]()
    lab.seen.slices.subscribe(lambda *_: tainted.update(lab.tainted()))
    hardware.bad.add("gpu-0")
    async with lab.scheduler(), lab.driver(ShortQuarantine(hardware, [gpu("gpu-0"), gpu("gpu-1")])):
        await lab.until(lambda *_: len(lab.devices()) == 2)
        lab.faults.add(Fault("update", "resourceslices", until=stores, count=-1))
        await lab.pod()
        while not any(call == ("attach", "gpu-0") for call in hardware.log):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        assert not tainted
        hardware.bad.clear()
        stores.set()
        await lab.bound()
        await lab.until(lambda *_: not lab.tainted())
        assert tainted == {"gpu-0"}


async def test_the_next_process_keeps_the_taint(lab: Lab, hardware: Hardware) -> None:
    hardware.bad.add("gpu-0")
    async with lab.scheduler():
        async with lab.driver(FabricDriver(hardware)):
            await lab.pod()
            await lab.bound()
        async with lab.driver(FabricDriver(hardware)):
            await lab.pod("pod-2")
            await lab.delete_pod("pod-1")
            assert await lab.bound("pod-2") == "gpu-1"
            assert lab.tainted() == {"gpu-0"}


async def test_a_device_is_detached_before_the_next_claim_attaches_it(lab: Lab, hardware: Hardware) -> None:
    """The scheduler allocates it at once. The hardware of the test rejects two attachments."""
    may_detach = asyncio.Event()

    class Slow(FabricDriver):
        async def detach(self, attachment: Attachment) -> None:
            await may_detach.wait()
            await super().detach(attachment)

    async with lab.scheduler(), lab.driver(Slow(hardware, [gpu("gpu-0")])):
        await lab.pod("pod-1")
        await lab.bound("pod-1")
        await lab.pod("pod-2")
        await lab.delete_pod("pod-1")
        await lab.waits("pod-2")
        assert hardware.attached["gpu-0"][0] == lab.claim("pod-1").metadata.uid
        may_detach.set()
        assert await lab.bound("pod-2") == "gpu-0"
    assert hardware.log == [("attach", "gpu-0"), ("detach", "gpu-0"), ("attach", "gpu-0")]


async def test_deleting_a_waiting_pod_cancels_attach(lab: Lab, hardware: Hardware) -> None:
    hardware.open.clear()
    async with lab.scheduler(), lab.driver(FabricDriver(hardware)):
        await lab.pod()
        await lab.until(
            lambda _, claims: bool(claims.get("default/pod-1", builders.claim()).metadata.annotations)
        )
        await lab.delete_pod()
        await lab.until(lambda _, claims: not claims["default/pod-1"].metadata.finalizers)
    assert hardware.log == [("detach", "gpu-0")]


async def test_the_error_of_a_canceled_attach_does_not_taint_the_device(lab: Lab, hardware: Hardware) -> None:
    class FailsOnCancel(FabricDriver):
        async def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
            try:
                await super().attach(claim, device)
            except asyncio.CancelledError:
                raise RuntimeError("session closed") from None

    hardware.open.clear()
    devices = [gpu("gpu-0")]
    async with lab.scheduler():
        async with lab.driver(FailsOnCancel(hardware, devices)):
            await lab.pod()
            await lab.until(
                lambda _, claims: bool(claims.get("default/pod-1", builders.claim()).metadata.annotations)
            )
            await lab.delete_pod()
            await lab.until(lambda _, claims: not claims["default/pod-1"].metadata.finalizers)
        hardware.open.set()
        async with lab.driver(FabricDriver(hardware, devices)):
            await lab.pod("pod-2")
            assert await lab.bound("pod-2") == "gpu-0"
    assert not lab.tainted()


async def test_a_deleted_claim_exists_until_its_device_is_detached(lab: Lab, hardware: Hardware) -> None:
    async with lab.scheduler():
        async with lab.driver(FabricDriver(hardware)):
            await lab.client.create(PODS, builders.pod(templates=["template"]), "default", into=dict)
            await lab.until(lambda pods, _: bool(pods and next(iter(pods.values())).spec.node_name))
        await lab.delete_pod()
        await lab.until(lambda _, claims: all(c.metadata.deletion_timestamp for c in claims.values()))
        assert hardware.attached
        async with lab.driver(FabricDriver(hardware)):
            await lab.until(lambda _, claims: not claims)
    assert not hardware.attached


async def test_the_next_process_continues_an_attach(lab: Lab, hardware: Hardware) -> None:
    hardware.open.clear()
    async with lab.scheduler():
        async with lab.driver(FabricDriver(hardware)):
            await lab.pod()
            await lab.until(
                lambda _, claims: bool(claims.get("default/pod-1", builders.claim()).metadata.annotations)
            )
        hardware.open.set()
        async with lab.driver(FabricDriver(hardware)):
            assert await lab.bound() == "gpu-0"


async def test_an_attached_device_without_a_claim_is_detached(lab: Lab, hardware: Hardware) -> None:
    class Listing(FabricDriver):
        def attachments(self) -> list[Attachment]:
            return [
                Attachment(uid, "fabric", name, node=node)
                for name, (uid, node) in self.hardware.attached.items()
            ]

    hardware.attached["gpu-1"] = ("uid-of-a-deleted-claim", "node-2")
    async with lab.scheduler(), lab.driver(Listing(hardware)):
        await lab.pod()
        await lab.bound()
        assert set(hardware.attached) == {"gpu-0"}


async def test_a_forged_record_does_not_detach_the_device_of_another_claim(
    lab: Lab, hardware: Hardware
) -> None:
    async with lab.scheduler(), lab.driver(FabricDriver(hardware)):
        await lab.pod()
        await lab.bound()
        owner = lab.claim()
        body = {
            "apiVersion": CLAIMS.api_version,
            "kind": CLAIMS.kind,
            "metadata": {
                "name": "forged",
                "annotations": owner.metadata.annotations,
                "finalizers": [f"{DRIVER}/detach"],
            },
            "spec": {"devices": {"requests": [{"name": "d", "exactly": {"deviceClassName": builders.CLASS}}]}},
        }
        await lab.client.create(CLAIMS, body, "default", into=dict)
        await lab.until(lambda _, claims: "default/forged" in claims)
        await lab.until(lambda _, claims: not claims["default/forged"].metadata.finalizers)
        assert set(hardware.attached) == {"gpu-0"}


async def test_attach_reports_conditions_while_it_runs(lab: Lab, hardware: Hardware) -> None:
    class Stepwise(FabricDriver):
        async def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
            await claim.conditions.set(device, ATTACHED, True, "Linked", "on port 3")
            await super().attach(claim, device)

    hardware.open.clear()
    device = gpu("gpu-0", ATTACHED, READY)
    async with lab.scheduler(), lab.driver(Stepwise(hardware, [device])):
        await lab.pod()
        await lab.until(lambda _, claims: "Linked" in str(claims.get("default/pod-1")))
        (entry,) = lab.claim().status.devices
        assert [(c.type, c.status, c.reason, c.message) for c in entry.conditions] == [
            (ATTACHED, "True", "Linked", "on port 3"),
            (READY, "False", "Attaching", ""),
        ]
        hardware.open.set()
        await lab.bound()


async def test_conditions_outside_own_conditions_are_not_set(lab: Lab, hardware: Hardware) -> None:
    """Another component sets the condition READY."""

    class OwnsAttached(FabricDriver):
        own_conditions = (ATTACHED,)

    async with lab.scheduler(), lab.driver(OwnsAttached(hardware, [gpu("gpu-0", ATTACHED, READY)])):
        await lab.pod()
        await lab.until(lambda _, claims: bool(claims.get("default/pod-1", builders.claim()).status.devices))
        assert not lab.seen.pods.items["default/pod-1"].spec.node_name
        claim = lab.claim()
        body = [
            {"op": "add", "path": "/metadata/resourceVersion", "value": claim.metadata.resource_version},
            {
                "op": "add",
                "path": "/status/devices/0/conditions/-",
                "value": {
                    "type": READY,
                    "status": "True",
                    "reason": "Seen",
                    "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                },
            },
        ]
        await lab.client.patch(
            *(CLAIMS, "pod-1", "default", body, PatchKind.JSON), into=dict, subresource="status"
        )
        await lab.bound()


async def test_attach_and_detach_can_be_plain_methods(lab: Lab, hardware: Hardware) -> None:
    class Blocking(FabricDriver):
        def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:  # type: ignore[override]
            self.hardware.attach(device.name, claim.uid, claim.node)

        def detach(self, attachment: Attachment) -> None:  # type: ignore[override]
            self.hardware.detach(attachment.device, attachment.claim_uid)

    async with lab.scheduler(), lab.driver(Blocking(hardware)):
        await lab.pod()
        await lab.bound()
        await lab.delete_pod()
        await lab.until(lambda _, claims: not claims["default/pod-1"].metadata.finalizers)
    assert not hardware.attached
