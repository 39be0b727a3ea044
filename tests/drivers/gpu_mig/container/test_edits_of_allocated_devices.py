"""Container edits: device nodes by number, the driver's files, and the container toolkit if it is installed."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import dradriver as dra
from dradriver_gpu_mig.card import (
    DriverNotLoadedError,
    Gpu,
    InstanceNotFoundError,
    MigDevice,
    NotSupportedError,
    System,
)
from dradriver_gpu_mig.card.simulator import SimulatedGpus
from dradriver_gpu_mig.container import GpuContainers
from tests.drivers.gpu_mig.shim.build import DRIVER_VERSION
from tests.drivers.gpu_mig.shim.node import CAPS_MAJOR, GPU_MAJOR, UVM_MAJOR, NodeFiles, capability_minor

SYSTEM = System(DRIVER_VERSION, "13.0")
DEVICE = MigDevice("MIG-1", 2, 0)
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


@pytest.fixture
def node(tmp_path: Path) -> NodeFiles:
    (tmp_path / "node").mkdir()
    return NodeFiles(tmp_path / "node", gpus=2)


@pytest.fixture
def gpu() -> Gpu:
    hardware = SimulatedGpus(["a100-40", "a100-40"])
    hardware.open()
    return hardware.gpus()[1]


def numbers(edits: dra.ContainerEdits) -> dict[str, tuple[int | None, int | None, int | None]]:
    assert all(node.type == "c" for node in edits.device_nodes)
    return {node.path: (node.major, node.minor, node.file_mode) for node in edits.device_nodes}


def places(edits: dra.ContainerEdits) -> dict[str, str]:
    return {mount.container_path: mount.host_path for mount in edits.mounts}


def test_a_gpu_is_its_node(node: NodeFiles, gpu: Gpu) -> None:
    assert numbers(GpuContainers(node.host).gpu(gpu)) == {"/dev/nvidia1": (GPU_MAJOR, 1, 0o666)}


def test_a_mig_device_is_its_gpu_and_two_capabilities(node: NodeFiles, gpu: Gpu) -> None:
    """/dev/nvidia-caps need not be there: everything is known by number."""
    of_gpu, of_compute = capability_minor(1, 2), capability_minor(1, 2, 0)
    assert numbers(GpuContainers(node.host).mig(gpu, DEVICE)) == {
        "/dev/nvidia1": (GPU_MAJOR, 1, 0o666),
        f"/dev/nvidia-caps/nvidia-cap{of_gpu}": (CAPS_MAJOR, of_gpu, 0o444),
        f"/dev/nvidia-caps/nvidia-cap{of_compute}": (CAPS_MAJOR, of_compute, 0o444),
    }


def test_minors_are_read_where_the_kernel_has_no_table(node: NodeFiles, gpu: Gpu) -> None:
    expected = GpuContainers(node.host).mig(gpu, DEVICE)
    (node.root / "proc/driver/nvidia-caps/mig-minors").unlink()
    with pytest.raises(InstanceNotFoundError, match="gpu1/gi2"):
        GpuContainers(node.host).mig(gpu, DEVICE)
    node.add_instance(1, DEVICE)
    assert GpuContainers(node.host).mig(gpu, DEVICE) == expected


def test_an_administrators_choice_of_owner_and_mode_holds(node: NodeFiles, gpu: Gpu) -> None:
    params = node.root / "proc/driver/nvidia/params"
    params.write_text(
        "ResmanDebugLevel: 4294967295\nDeviceFileUID: 0\nDeviceFileGID: 44\nDeviceFileMode: 432\n"
    )
    (found,) = GpuContainers(node.host).gpu(gpu).device_nodes
    assert (found.file_mode, found.uid, found.gid) == (0o660, None, 44)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_nodes_that_are_there_keep_their_mode(node: NodeFiles, gpu: Gpu) -> None:
    node.add_device_nodes()
    path = node.root / "dev/nvidia1"
    path.chmod(0o640)
    os.chown(path, 0, 44)
    (found,) = GpuContainers(node.host).gpu(gpu).device_nodes
    assert (found.file_mode, found.gid) == (0o640, 44)
    assert "/dev/nvidia-modeset" in numbers(GpuContainers(node.host).common(SYSTEM))


def test_control_nodes_are_known_before_they_exist(node: NodeFiles) -> None:
    assert numbers(GpuContainers(node.host).common(SYSTEM)) == {
        "/dev/nvidiactl": (GPU_MAJOR, 255, 0o666),
        "/dev/nvidia-uvm": (UVM_MAJOR, 0, 0o666),
        "/dev/nvidia-uvm-tools": (UVM_MAJOR, 1, 0o666),
    }


def test_without_the_kernel_module_nothing_is_given(node: NodeFiles, gpu: Gpu) -> None:
    node.unload()
    containers = GpuContainers(node.host)
    asks: list[Callable[[], dra.ContainerEdits]] = [
        lambda: containers.gpu(gpu),
        lambda: containers.mig(gpu, DEVICE),
        lambda: containers.common(SYSTEM),
    ]
    for ask in asks:
        with pytest.raises(DriverNotLoadedError):
            ask()


def test_a_gpu_with_unknown_minor_number_is_rejected(node: NodeFiles, gpu: Gpu) -> None:
    with pytest.raises(NotSupportedError, match=gpu.uuid):
        GpuContainers(node.host).gpu(replace(gpu, minor=None))


def test_files_of_the_driver_come_from_its_root(node: NodeFiles) -> None:
    """A container finds them where it would find its own; the host may have the root elsewhere than here."""
    host = replace(node.host, driver_root_on_host=Path("/run/nvidia/driver"))
    found = places(GpuContainers(host).common(SYSTEM))
    for path in (
        f"{LIBRARIES}/libcuda.so.{DRIVER_VERSION}",
        f"{LIBRARIES}/vdpau/libvdpau_nvidia.so.{DRIVER_VERSION}",
        "/usr/bin/nvidia-smi",
        f"/lib/firmware/nvidia/{DRIVER_VERSION}/gsp_ga10x.bin",
        "/run/nvidia-persistenced/socket",
    ):
        assert found[path] == f"/run/nvidia/driver{path}"
    assert f"{LIBRARIES}/libother.so.6" not in found


def test_without_hooks_libraries_have_the_names_they_are_loaded_by(node: NodeFiles) -> None:
    edits = GpuContainers(node.host).common(SYSTEM)
    target = f"{node.root}{LIBRARIES}/libcuda.so.{DRIVER_VERSION}"
    assert places(edits)[f"{LIBRARIES}/libcuda.so.1"] == target
    assert not edits.hooks


def test_with_the_toolkits_hook_links_are_its_work(node: NodeFiles) -> None:
    host = replace(node.host, hook=Path("/usr/bin/nvidia-cdi-hook"))
    edits = GpuContainers(host).common(SYSTEM)
    assert f"{LIBRARIES}/libcuda.so.1" not in places(edits)
    links, cache = edits.hooks
    assert links.args[:2] == ("nvidia-cdi-hook", "create-symlinks")
    assert f"libcuda.so.{DRIVER_VERSION}::{LIBRARIES}/libcuda.so.1" in links.args
    assert f"libcuda.so.1::{LIBRARIES}/libcuda.so" in links.args
    assert cache.args[1:] == ("update-ldcache", "--folder", LIBRARIES, "--folder", f"{LIBRARIES}/vdpau")


def test_no_runtime_of_the_toolkit_adds_devices(node: NodeFiles) -> None:
    assert GpuContainers(node.host).common(SYSTEM).env == ("NVIDIA_VISIBLE_DEVICES=void",)


def write_toolkit_spec(node: NodeFiles, version: str) -> None:
    library = f"{LIBRARIES}/libcuda.so.{version}"
    spec = {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [{"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}],
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void", "FROM=toolkit"],
            "deviceNodes": [{"path": "/dev/nvidiactl", "major": 195, "minor": 255, "fileMode": 438}],
            "mounts": [{"hostPath": library, "containerPath": library, "options": ["ro", "rbind"]}],
            "hooks": [{"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook", "args": ["x"]}],
        },
    }
    folder = node.root / "etc/cdi"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "broken.yaml").write_text("{")
    (folder / "nvidia.yaml").write_text(yaml.safe_dump(spec))


def test_a_toolkit_spec_of_this_driver_version_is_used(node: NodeFiles) -> None:
    write_toolkit_spec(node, DRIVER_VERSION)
    edits = GpuContainers(node.host).common(SYSTEM)
    assert edits.env == ("NVIDIA_VISIBLE_DEVICES=void", "FROM=toolkit")
    assert [each.path for each in edits.device_nodes] == ["/dev/nvidiactl"]
    assert [hook.path for hook in edits.hooks] == ["/usr/bin/nvidia-cdi-hook"]


def test_a_toolkit_spec_of_an_earlier_driver_version_is_not_used(node: NodeFiles) -> None:
    write_toolkit_spec(node, "535.183.01")
    edits = GpuContainers(node.host).common(SYSTEM)
    assert "FROM=toolkit" not in edits.env
    assert f"{LIBRARIES}/libcuda.so.{DRIVER_VERSION}" in places(edits)
