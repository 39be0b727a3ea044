"""A program in a container runs on a real GPU: the driver prepares a claim, and runc starts the container."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from dradriver_gpu_mig.card import Gpu
from tests.gpu.conftest import MakeNode, find_device
from tests.gpu.cuda import SUM, parse, run_in_container
from tests.interop.loader_view import containers
from tests.interop.loader_view.containers import run

pytestmark = [
    pytest.mark.skipif(bool(containers.find_missing()), reason=containers.find_missing() or "-"),
    pytest.mark.timeout(180),
]


def test_a_kernel_runs_on_the_allocated_gpu(nodes: MakeNode, gpu: Gpu, image: Path) -> None:
    node = nodes("mode: whole")
    claim = node.allocate_blindly(("node-1", find_device(node, gpu).name))
    facts = run_in_container(image, node.prepare(claim).edits, "add")
    assert (facts["uuid"], facts["sum"]) == (gpu.uuid, str(SUM))
    node.unprepare(claim)


def test_nvidia_smi_in_the_container_lists_the_gpu(nodes: MakeNode, gpu: Gpu, image: Path) -> None:
    node = nodes("mode: whole")
    edits = node.prepare(node.allocate_blindly(("node-1", find_device(node, gpu).name))).edits
    (program,) = {each.container_path for each in edits.mounts if each.container_path.endswith("/nvidia-smi")}
    if Path(program).read_bytes()[:4] != b"\x7fELF":
        pytest.skip(f"{program} of this machine is a script that starts another program")
    done = run(image, edits, program, "-L")
    assert gpu.uuid in done.stdout, done.stdout + done.stderr


def test_a_container_with_the_libraries_alone_has_no_gpu(nodes: MakeNode, gpu: Gpu, image: Path) -> None:
    node = nodes("mode: whole")
    edits = node.prepare(node.allocate_blindly(("node-1", find_device(node, gpu).name))).edits
    done = run(image, replace(edits, device_nodes=()), "/usr/bin/cuda-program", "add")
    assert done.returncode == 1
    assert "cuInit" in parse(done.stdout), done.stdout + done.stderr
