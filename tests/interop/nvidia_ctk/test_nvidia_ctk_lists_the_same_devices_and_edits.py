"""NVIDIA's own tool, with the same library and files, lists the same devices and edits of a node."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

import dradriver as dra
from dradriver_gpu_mig.card import Gpu, MigDevice, Placement, System
from dradriver_gpu_mig.card.nvml import NvmlGpus
from dradriver_gpu_mig.container import GpuContainers
from dradriver_gpu_mig.host.hook import SHIPPED_COMMANDS, HookProgram
from tests.drivers.gpu_mig.mig_devices import list_mig_devices
from tests.drivers.gpu_mig.shim.build import DRIVER_VERSION, build_shim
from tests.drivers.gpu_mig.shim.controls import ShimControls, environment
from tests.drivers.gpu_mig.shim.node import NodeFiles
from tests.e2e.bed import programs
from tests.interop.nvidia_ctk.specs import (
    DIFFERENCES,
    our_hooks,
    our_mounts,
    our_nodes,
    split_links,
    their_hooks,
    their_mounts,
    their_nodes,
)

pytestmark = [
    pytest.mark.skipif(bool(programs.missing("nvidia-ctk")), reason=programs.missing("nvidia-ctk") or "-"),
    pytest.mark.skipif(
        programs.COMPILER is None, reason="no C compiler: the shim of libnvidia-ml can't be built"
    ),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes and mounts"),
    pytest.mark.timeout(900),
]

HOOK = Path("/usr/bin/nvidia-cdi-hook")
# nvidia-ctk reads /proc (minors of instances) and /sys (nodes of graphics) regardless of its options.
IN_ITS_OWN_FOLDERS = """
mount -t tmpfs none /proc/driver && cp -r "$0/proc/driver/." /proc/driver/ && mount --bind "$0/sys" /sys || exit
exec "$@"
"""
GRAPHICS_PROFILE = 47
SYSTEM = System(DRIVER_VERSION, "13.0")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> NodeFiles:
    """Return a node with four GPUs.

    They have two MIG devices, an incomplete instance, no MIG, and a MIG device with graphics.
    """
    node = NodeFiles(tmp_path_factory.mktemp("node"), gpus=4)
    node.add_device_nodes()
    node.add_graphics()
    node.add_drm()
    node.add_libraries()
    build_shim(node.root / "usr/lib/x86_64-linux-gnu")
    return node


@pytest.fixture(scope="module")
def hardware(node: NodeFiles, tmp_path_factory: pytest.TempPathFactory) -> Iterable[NvmlGpus]:
    state = tmp_path_factory.mktemp("state") / "cards"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(state, ["a100-40", "a100-80", "h100-80", "rtx-pro-6000"]).items():
            patch.setenv(name, value)
        library = node.root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
        hardware = NvmlGpus(library)
        hardware.open()
        one, other, whole, graphics = hardware.gpus()
        for profile, place in ((9, Placement(4, 4)), (19, Placement(2, 1))):
            made = hardware.create_gpu_instance(one.uuid, profile, place)
            hardware.create_compute_instance(one.uuid, made)
        made = hardware.create_gpu_instance(graphics.uuid, GRAPHICS_PROFILE, Placement(3, 3))
        hardware.create_compute_instance(graphics.uuid, made)
        hardware.create_gpu_instance(other.uuid, 14, Placement(0, 2))
        hardware.set_mig_mode(whole.uuid, enabled=False)
        ShimControls(library).reset(2)
        yield hardware
        hardware.close()


@pytest.fixture(scope="module")
def theirs(node: NodeFiles, hardware: NvmlGpus) -> dict[str, Any]:
    """Return the spec that nvidia-ctk writes for the node."""
    command = [str(programs.program("nvidia-ctk")), "--quiet", "cdi", "generate", "--mode", "nvml"]
    roots = {"--driver-root": node.root, "--dev-root": node.root, "--nvidia-cdi-hook-path": HOOK}
    command += [str(word) for pair in roots.items() for word in pair]
    command += ["--device-name-strategy", "uuid", "--no-all-device"]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", IN_ITS_OWN_FOLDERS, str(node.root), *command],
        env={**os.environ, "LD_LIBRARY_PATH": str(node.root / "usr/lib/x86_64-linux-gnu")},
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    spec: dict[str, Any] = yaml.safe_load(done.stdout)
    return spec


@pytest.fixture
def ours(node: NodeFiles) -> GpuContainers:
    return GpuContainers(node.host, HookProgram(HOOK, SHIPPED_COMMANDS))


def allocatable(hardware: NvmlGpus) -> dict[str, tuple[Gpu, MigDevice | None]]:
    """Return by UUID the devices that a container can get: undivided GPUs and MIG devices."""
    found: dict[str, tuple[Gpu, MigDevice | None]] = {}
    for gpu in hardware.gpus():
        if gpu.mig is not None and gpu.mig.current:
            found |= {device.uuid: (gpu, device) for device in list_mig_devices(hardware, gpu.uuid)}
        else:
            found[gpu.uuid] = gpu, None
    return found


def test_the_devices_are_the_same(theirs: dict[str, Any], hardware: NvmlGpus) -> None:
    """A GPU that is divided is no device, and neither is an incomplete instance."""
    devices = allocatable(hardware)
    assert len(devices) == 4
    assert {device["name"] for device in theirs["devices"]} == set(devices)


def of_device(ours: GpuContainers, gpu: Gpu, device: MigDevice | None) -> dra.ContainerEdits:
    profile = "1g.24gb+gfx" if "RTX" in gpu.name else "1g.5gb"
    return (ours.gpu(gpu) if device is None else ours.mig(gpu, device, profile)).edits


def test_each_device_has_the_same_nodes(
    theirs: dict[str, Any], ours: GpuContainers, hardware: NvmlGpus
) -> None:
    edits = {device["name"]: their_nodes(device["containerEdits"]) for device in theirs["devices"]}
    assert edits == {
        uuid: our_nodes(of_device(ours, gpu, device)) for uuid, (gpu, device) in allocatable(hardware).items()
    }


def test_each_device_has_the_same_links(
    theirs: dict[str, Any], ours: GpuContainers, hardware: NvmlGpus, node: NodeFiles
) -> None:
    devices = allocatable(hardware)
    for device in theirs["devices"]:
        links, others = split_links(their_hooks(device["containerEdits"]))
        gpu, mig = devices[device["name"]]
        assert {hook[2][1] for hook in others} <= {"apply-cuda-memory-limits"}  # DIFFERENCES
        assert split_links(our_hooks(of_device(ours, gpu, mig))) == (
            {link.replace(str(node.root), "") for link in links},  # DIFFERENCES
            [],
        )
        assert bool(links) is (mig is None or "RTX" in gpu.name)


def test_every_container_gets_the_same_nodes_files_and_variables(
    theirs: dict[str, Any], ours: GpuContainers
) -> None:
    edits = ours.common(SYSTEM).edits
    assert our_nodes(edits) == their_nodes(theirs["containerEdits"])
    assert our_mounts(edits) == their_mounts(theirs["containerEdits"])
    assert set(edits.env) == set(theirs["containerEdits"]["env"])


def test_every_container_gets_the_same_hooks(theirs: dict[str, Any], ours: GpuContainers) -> None:
    links, others = split_links(their_hooks(theirs["containerEdits"]))
    our_links, our_others = split_links(our_hooks(ours.common(SYSTEM).edits))
    assert our_others == others
    assert links <= our_links
    assert {link for link in our_links - links if "libnvidia-egl-" not in link} == set()  # DIFFERENCES


def test_each_difference_is_in_the_documentation() -> None:
    page = " ".join((Path(__file__).parents[3] / "docs/drivers/gpu-mig.md").read_text().split())
    assert [name for name in DIFFERENCES if f"| {name} |" not in page] == []
