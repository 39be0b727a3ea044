"""What containers of a claim get of its devices together, and what they do without."""

from pathlib import Path
from typing import cast

import pytest

import dradriver as dra
from dradriver.testing import device_request
from dradriver_gpu_mig import GpuDriver
from dradriver_gpu_mig.card import Gpu, MigDevice, System
from dradriver_gpu_mig.containers import OfferedEdits, SimulatedContainers, has_graphics
from tests.drivers.gpu_mig.nodes import DRIVER, GpuHarness


class HookedContainers(SimulatedContainers):
    """Containers with a hook for all devices, and one for each device."""

    def common(self, system: System) -> OfferedEdits:
        return super().common(system) | OfferedEdits(dra.ContainerEdits(hooks=[make_hook("common")]))

    def mig(self, gpu: Gpu, device: MigDevice, profile: str) -> OfferedEdits:
        edits = dra.ContainerEdits(hooks=[make_hook(f"gi{device.gpu_instance}")])
        return super().mig(gpu, device, profile) | OfferedEdits(edits)


def make_hook(name: str) -> dra.Hook:
    return dra.Hook("createContainer", "/hook", ["hook", name])


class PoorContainers(SimulatedContainers):
    """Containers of a node that lacks something for all devices, and something for one profile."""

    def common(self, system: System) -> OfferedEdits:
        return super().common(system) | OfferedEdits(missing=("no libcuda",))

    def mig(self, gpu: Gpu, device: MigDevice, profile: str) -> OfferedEdits:
        return super().mig(gpu, device, profile) | OfferedEdits(
            missing=(f"nothing for {profile}", "no libcuda")
        )


def test_each_request_runs_the_hooks_that_its_devices_share_once(tmp_path: Path) -> None:
    """A container may use one request of a claim alone."""
    with GpuHarness(tmp_path) as node:
        cast(GpuDriver, node.driver)._containers = HookedContainers()
        expression = f"device.attributes['{DRIVER}'].profile == '1g.5gb'"
        requests = [device_request(DRIVER, expression, name=name, count=2) for name in ("one", "other")]
        claim = node.allocate(*requests)
        node.prepare(claim)
        spec = node.spec(claim)
    assert spec is not None
    hooks = [[hook.args[1] for hook in each.container_edits.hooks] for each in spec.devices[:4]]
    assert [names[0] == "common" for names in hooks] == [True, False, True, False]
    assert [len(names) for names in hooks] == [2, 1, 2, 1]


def test_the_claim_gets_an_event_for_each_missing_thing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[tuple[str, str]] = []

    def warn(_: GpuDriver, claim: dra.Claim, message: str) -> None:
        warnings.append((claim.uid, message))

    # The claim is prepared nevertheless.
    monkeypatch.setattr(GpuDriver, "warn", warn)
    with GpuHarness(tmp_path) as node:
        claim = node.allocate_profile("1g.5gb")
        cast(GpuDriver, node.driver)._containers = PoorContainers()
        node.prepare(claim)
        assert len(node.first_gpu_instances) == 1
    uid = claim.metadata.uid
    assert warnings == [(uid, "no libcuda"), (uid, "nothing for 1g.5gb")]


@pytest.mark.parametrize(
    ("profile", "has"),
    [
        ("1g.24gb+gfx", True),
        ("1g.24gb+me,gfx", True),
        ("1g.24gb+me", False),
        ("1g.24gb-me", False),
        ("", False),
    ],
)
def test_profiles_with_graphics_are_known_by_their_name(profile: str, has: bool) -> None:
    assert has_graphics(profile) is has
