"""A pod with admin access to devices that have binding conditions is bound, and nothing is attached for it."""

from pathlib import Path

from dradriver.kube import CLAIMS, NAMESPACES, PODS, PatchKind
from dradriver.model.core.meta import Condition
from dradriver.model.resource.claim import DeviceRequest, ExactDeviceRequest
from dradriver.testing import builders
from tests.unit.conditions.fabric import ATTACHED, DRIVER, READY, FabricDriver, Hardware, Lab, gpu
from tests.unit.conditions.node_driver import beside_a_kubelet


async def monitor(lab: Lab, **request: object) -> None:
    """Create a pod with admin access, by default to all devices."""
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await lab.client.patch(NAMESPACES, "default", "", label, PatchKind.MERGE, into=dict)
    wanted = {"allocation_mode": "All", **request}
    exactly = ExactDeviceRequest(device_class_name=builders.CLASS, admin_access=True, **wanted)  # type: ignore[arg-type]
    claim = builders.claim(DeviceRequest("all", exactly), name="monitor")
    await lab.client.create(CLAIMS, claim, "default", into=dict)
    await lab.client.create(PODS, builders.pod("monitor", name="monitor"), "default", into=dict)


def reasons(lab: Lab) -> dict[str, dict[str, str]]:
    """Return the reasons of the conditions that are True, by device."""

    def true(conditions: list[Condition]) -> dict[str, str]:
        return {each.type: each.reason for each in conditions if each.status == "True"}

    return {entry.device: true(entry.conditions) for entry in lab.claim("monitor").status.devices}


async def test_devices_of_a_binding_driver(lab: Lab, hardware: Hardware) -> None:
    async with lab.scheduler(), lab.driver(FabricDriver(hardware)):
        await lab.pod()
        await lab.bound()
        await monitor(lab)
        await lab.bound("monitor")
        assert reasons(lab) == {name: {ATTACHED: "AdminAccess"} for name in ("gpu-0", "gpu-1")}
        assert not lab.claim("monitor").metadata.annotations
        await lab.delete_pod("monitor")
        await lab.until(lambda _, claims: claims["default/monitor"].allocation is None)
    assert hardware.log == [("attach", "gpu-0")], "only for the pod without admin access"


async def test_devices_of_a_node_binding_driver(lab: Lab, hardware: Hardware, tmp_path: Path) -> None:
    (tmp_path / "registry").mkdir()
    async with lab.scheduler(), beside_a_kubelet(lab, hardware, tmp_path):
        await lab.until(lambda *_: bool(lab.devices()))
        await monitor(lab, allocation_mode="ExactCount", count=1)
        await lab.bound("monitor")
    assert {reason for each in reasons(lab).values() for reason in each.values()} == {"AdminAccess"}
    assert not hardware.log


async def test_conditions_outside_own_conditions_are_not_set(lab: Lab, hardware: Hardware) -> None:
    class OwnsAttached(FabricDriver):
        own_conditions = (ATTACHED,)

    async with lab.scheduler(), lab.driver(OwnsAttached(hardware, [gpu("gpu-0", ATTACHED, READY)])):
        await lab.until(lambda *_: bool(lab.devices()))
        await monitor(lab)
        await lab.until(lambda *_: "default/monitor" in lab.seen.claims.items and bool(reasons(lab)))
        assert reasons(lab) == {"gpu-0": {ATTACHED: "AdminAccess"}}
        assert lab.claim("monitor").results[0].driver == DRIVER
