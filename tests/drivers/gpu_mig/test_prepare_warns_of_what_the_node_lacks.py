"""Something that the node does not offer is an Event of the claim. The claim is prepared nevertheless."""

from pathlib import Path
from typing import cast

import pytest

import dradriver as dra
from dradriver_gpu_mig import GpuDriver
from dradriver_gpu_mig.card import Gpu, MigDevice, System
from dradriver_gpu_mig.containers import OfferedEdits, SimulatedContainers, has_graphics
from tests.drivers.gpu_mig.nodes import GpuHarness


class PoorContainers(SimulatedContainers):
    """Containers of a node that lacks something for all devices, and something for one profile."""

    def common(self, system: System) -> OfferedEdits:
        return super().common(system) | OfferedEdits(missing=("no libcuda",))

    def mig(self, gpu: Gpu, device: MigDevice, profile: str) -> OfferedEdits:
        return super().mig(gpu, device, profile) | OfferedEdits(
            missing=(f"nothing for {profile}", "no libcuda")
        )


def test_the_claim_gets_an_event_for_each_missing_thing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[tuple[str, str]] = []

    def warn(_: GpuDriver, claim: dra.Claim, message: str) -> None:
        warnings.append((claim.uid, message))

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
