"""NVIDIA's own tool lists the same edits for a real node and a real GPU."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dradriver_gpu_mig.card import Gpu
from dradriver_gpu_mig.card.nvml import NvmlGpus
from dradriver_gpu_mig.container import GpuContainers
from dradriver_gpu_mig.host.hook import SHIPPED_COMMANDS, HookProgram
from dradriver_gpu_mig.host.paths import HostPaths
from dradriver_gpu_mig.mps.node_view import SEARCH
from tests.e2e.bed import programs
from tests.interop.nvidia_ctk.specs import (
    our_hooks,
    our_mounts,
    our_nodes,
    split_links,
    their_hooks,
    their_mounts,
    their_nodes,
)

pytestmark = pytest.mark.skipif(
    bool(programs.missing("nvidia-ctk")), reason=programs.missing("nvidia-ctk") or "-"
)

HOOK = Path("/usr/bin/nvidia-cdi-hook")


@pytest.fixture(scope="module")
def theirs() -> dict[str, Any]:
    """Return the spec that nvidia-ctk writes for this node."""
    command = (str(programs.program("nvidia-ctk")), "--quiet", "cdi", "generate", "--mode", "nvml")
    options = ("--nvidia-cdi-hook-path", str(HOOK), "--device-name-strategy", "uuid", "--no-all-device")
    done = subprocess.run((*command, *options), env=SEARCH, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    spec: dict[str, Any] = yaml.safe_load(done.stdout)
    return spec


@pytest.fixture
def ours() -> GpuContainers:
    return GpuContainers(HostPaths(), HookProgram(HOOK, SHIPPED_COMMANDS))


def test_the_gpu_has_the_same_nodes(theirs: dict[str, Any], ours: GpuContainers, gpu: Gpu) -> None:
    (edits,) = (each["containerEdits"] for each in theirs["devices"] if each["name"] == gpu.uuid)
    assert their_nodes(edits) == our_nodes(ours.gpu(gpu).edits)


def test_every_container_gets_the_same(theirs: dict[str, Any], ours: GpuContainers, hardware: NvmlGpus) -> None:
    offered, edits = ours.common(hardware.system()), theirs["containerEdits"]
    assert offered.missing == ()
    assert our_nodes(offered.edits) == their_nodes(edits)
    assert our_mounts(offered.edits) == their_mounts(edits)
    assert set(offered.edits.env) == set(edits["env"])


def test_every_container_gets_the_same_hooks(
    theirs: dict[str, Any], ours: GpuContainers, hardware: NvmlGpus
) -> None:
    links, others = split_links(their_hooks(theirs["containerEdits"]))
    our_links, our_others = split_links(our_hooks(ours.common(hardware.system()).edits))
    assert our_others == others
    assert links <= our_links
    assert {link for link in our_links - links if "libnvidia-egl-" not in link} == set()
