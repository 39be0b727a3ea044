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
from dradriver_gpu_mig.containers import OfferedEdits
from dradriver_gpu_mig.host.hook import SHIPPED_COMMANDS, HookProgram
from tests.drivers.gpu_mig.shim.build import DRIVER_VERSION
from tests.drivers.gpu_mig.shim.node import (
    CAPS_MAJOR,
    GPU_MAJOR,
    GRAPHICS_FILES,
    UVM_MAJOR,
    Layout,
    NodeFiles,
    capability_minor,
)

SYSTEM = System(DRIVER_VERSION, "13.0")
DEVICE = MigDevice("MIG-1", 2, 0)
PROFILE = "1g.5gb"
SHIPPED_HOOK = HookProgram(Path("/plugin/nvidia-cdi-hook"), SHIPPED_COMMANDS)
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


def containers(node: NodeFiles, hook: HookProgram | None = None) -> GpuContainers:
    return GpuContainers(node.host, hook)


def numbers(edits: dra.ContainerEdits) -> dict[str, tuple[int | None, int | None, int | None]]:
    assert all(node.type == "c" for node in edits.device_nodes)
    return {node.path: (node.major, node.minor, node.file_mode) for node in edits.device_nodes}


def places(edits: dra.ContainerEdits) -> dict[str, str]:
    return {mount.container_path: mount.host_path for mount in edits.mounts}


def test_a_gpu_is_its_node(node: NodeFiles, gpu: Gpu) -> None:
    assert numbers(containers(node).gpu(gpu).edits) == {"/dev/nvidia1": (GPU_MAJOR, 1, 0o666)}


def test_a_mig_device_is_its_gpu_and_two_capabilities(node: NodeFiles, gpu: Gpu) -> None:
    """/dev/nvidia-caps need not be there: everything is known by number."""
    of_gpu, of_compute = capability_minor(1, 2), capability_minor(1, 2, 0)
    assert numbers(containers(node).mig(gpu, DEVICE, PROFILE).edits) == {
        "/dev/nvidia1": (GPU_MAJOR, 1, 0o666),
        f"/dev/nvidia-caps/nvidia-cap{of_gpu}": (CAPS_MAJOR, of_gpu, 0o444),
        f"/dev/nvidia-caps/nvidia-cap{of_compute}": (CAPS_MAJOR, of_compute, 0o444),
    }


def test_admin_access_gets_the_monitor_and_never_the_configuration(node: NodeFiles) -> None:
    (given,) = containers(node).monitor().edits.device_nodes
    assert (given.path, given.major, given.minor, given.permissions) == (
        "/dev/nvidia-caps/nvidia-cap2",
        CAPS_MAJOR,
        2,
        "rw",
    )
    capability = node.root / "proc/driver/nvidia/capabilities/mig/monitor"
    capability.parent.mkdir(parents=True)
    capability.write_text("DeviceFileMinor: 7\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    (given,) = containers(node).monitor().edits.device_nodes
    assert (given.minor, given.file_mode) == (7, 0o444)
    node.unload()
    assert containers(node).monitor().edits.device_nodes == ()


def test_minors_are_read_where_the_kernel_has_no_table(node: NodeFiles, gpu: Gpu) -> None:
    expected = containers(node).mig(gpu, DEVICE, PROFILE).edits
    (node.root / "proc/driver/nvidia-caps/mig-minors").unlink()
    with pytest.raises(InstanceNotFoundError, match="gpu1/gi2"):
        containers(node).mig(gpu, DEVICE, PROFILE)
    node.add_instance(1, DEVICE)
    assert containers(node).mig(gpu, DEVICE, PROFILE).edits == expected


def test_an_administrators_choice_of_owner_and_mode_holds(node: NodeFiles, gpu: Gpu) -> None:
    params = node.root / "proc/driver/nvidia/params"
    params.write_text(
        "ResmanDebugLevel: 4294967295\nDeviceFileUID: 0\nDeviceFileGID: 44\nDeviceFileMode: 432\n"
    )
    (found,) = containers(node).gpu(gpu).edits.device_nodes
    assert (found.file_mode, found.uid, found.gid) == (0o660, None, 44)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_nodes_that_are_there_keep_their_mode(node: NodeFiles, gpu: Gpu) -> None:
    node.add_device_nodes()
    path = node.root / "dev/nvidia1"
    path.chmod(0o640)
    os.chown(path, 0, 44)
    (found,) = containers(node).gpu(gpu).edits.device_nodes
    assert (found.file_mode, found.gid) == (0o640, 44)
    assert "/dev/nvidia-modeset" in numbers(containers(node).common(SYSTEM).edits)


def test_control_nodes_are_known_before_they_exist(node: NodeFiles) -> None:
    assert numbers(containers(node).common(SYSTEM).edits) == {
        "/dev/nvidiactl": (GPU_MAJOR, 255, 0o666),
        "/dev/nvidia-uvm": (UVM_MAJOR, 0, 0o666),
        "/dev/nvidia-uvm-tools": (UVM_MAJOR, 1, 0o666),
    }


def test_without_the_kernel_module_nothing_is_given(node: NodeFiles, gpu: Gpu) -> None:
    node.unload()
    asks: list[Callable[[], OfferedEdits]] = [
        lambda: containers(node).gpu(gpu),
        lambda: containers(node).mig(gpu, DEVICE, PROFILE),
        lambda: containers(node).common(SYSTEM),
    ]
    for ask in asks:
        with pytest.raises(DriverNotLoadedError):
            ask()


def test_a_gpu_with_unknown_minor_number_is_rejected(node: NodeFiles, gpu: Gpu) -> None:
    with pytest.raises(NotSupportedError, match=gpu.uuid):
        containers(node).gpu(replace(gpu, minor=None))


def test_files_of_the_driver_come_from_its_root(node: NodeFiles) -> None:
    """A container finds them where it would find its own; the host may have the root elsewhere than here."""
    host = replace(node.host, driver_root_on_host=Path("/run/nvidia/driver"))
    found = places(GpuContainers(host, None).common(SYSTEM).edits)
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
    edits = containers(node).common(SYSTEM).edits
    target = f"{node.root}{LIBRARIES}/libcuda.so.{DRIVER_VERSION}"
    assert places(edits)[f"{LIBRARIES}/libcuda.so.1"] == target
    assert not edits.hooks


def test_a_hook_of_the_node_gets_only_commands_that_every_version_has(node: NodeFiles) -> None:
    """An old version fails on an unknown command, and the container does not start."""
    offered = containers(node, HookProgram(Path("/usr/bin/nvidia-cdi-hook"))).common(SYSTEM)
    assert f"{LIBRARIES}/libcuda.so.1" not in places(offered.edits)
    links, cache = offered.edits.hooks
    assert links.args[:2] == ("nvidia-cdi-hook", "create-symlinks")
    assert f"libcuda.so.{DRIVER_VERSION}::{LIBRARIES}/libcuda.so.1" in links.args
    assert f"libcuda.so.1::{LIBRARIES}/libcuda.so" in links.args
    assert cache.args[1:] == ("update-ldcache", "--folder", LIBRARIES, "--folder", f"{LIBRARIES}/vdpau")
    assert not offered.missing


def test_the_shipped_hook_gets_all_commands(node: NodeFiles) -> None:
    edits = containers(node, SHIPPED_HOOK).common(SYSTEM).edits
    assert {hook.path for hook in edits.hooks} == {str(SHIPPED_HOOK.path)}
    assert [hook.args[1] for hook in edits.hooks] == [
        "create-symlinks",
        "enable-cuda-compat",
        "update-ldcache",
        "disable-device-node-modification",
        "update-application-profile",
    ]
    assert edits.hooks[1].args[2:] == (f"--host-driver-version={DRIVER_VERSION}",)


def test_ldconfig_of_the_driver_container_is_used_where_the_node_has_none(tmp_path: Path) -> None:
    node = NodeFiles(tmp_path, layout=Layout.DRIVER_CONTAINER)
    (node.root / "sbin/ldconfig").rename(node.driver_root / "usr/bin/ldconfig")
    (node.driver_root / "sbin").symlink_to("usr/bin")
    host = replace(node.host, driver_root_on_host=Path("/run/nvidia/driver"))
    offered = GpuContainers(host, SHIPPED_HOOK).common(SYSTEM)
    (cache,) = (hook for hook in offered.edits.hooks if hook.args[1] == "update-ldcache")
    assert cache.args[2:4] == ("--ldconfig-path", "/run/nvidia/driver/sbin/ldconfig")
    assert not offered.missing


def test_files_of_graphics_are_found_where_programs_look_for_them(node: NodeFiles) -> None:
    """A driver for compute has none of them, which nobody is told."""
    assert not containers(node, SHIPPED_HOOK).common(SYSTEM).missing
    node.add_graphics()
    edits = containers(node, SHIPPED_HOOK).common(SYSTEM).edits
    found = places(edits)
    for name in GRAPHICS_FILES:
        path = name.replace("usr/share/vulkan", "etc/vulkan")
        assert found[f"/{path}"] == f"{node.root}/{name}"
    for name in ("libnvidia-egl-gbm.so.1.1.2", "nvidia/xorg/nvidia_drv.so"):
        assert found[f"{LIBRARIES}/{name}"] == f"{node.root}{LIBRARIES}/{name}"
    links = edits.hooks[0].args
    assert f"../libnvidia-allocator.so.1::{LIBRARIES}/gbm/nvidia-drm_gbm.so" in links
    assert f"libGLX_nvidia.so.{DRIVER_VERSION}::{LIBRARIES}/libGLX_indirect.so.0" in links


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_gpus_and_mig_devices_with_graphics_have_nodes_of_dri(node: NodeFiles, gpu: Gpu) -> None:
    node.add_drm()
    dri = {"/dev/dri/card1", "/dev/dri/renderD129"}
    hook = SHIPPED_HOOK
    offers = {
        "gpu": containers(node, hook).gpu(gpu),
        "1g.5gb": containers(node, hook).mig(gpu, DEVICE, "1g.5gb"),
        "1g.5gb+me": containers(node, hook).mig(gpu, DEVICE, "1g.5gb+me"),
        "1g.24gb+gfx": containers(node, hook).mig(gpu, DEVICE, "1g.24gb+gfx"),
    }
    assert {name for name, offer in offers.items() if dri <= numbers(offer.edits).keys()} == {
        "gpu",
        "1g.24gb+gfx",
    }
    for name in ("gpu", "1g.24gb+gfx"):
        (links,) = offers[name].edits.hooks
        assert links.args[2:] == (
            *("--link", f"../card1::/dev/dri/by-path/pci-{gpu.pci_address}-card"),
            *("--link", f"../renderD129::/dev/dri/by-path/pci-{gpu.pci_address}-render"),
        )


@pytest.mark.parametrize("driver", ["with hook", "without"])
def test_what_the_node_does_not_offer_is_named(node: NodeFiles, gpu: Gpu, driver: str) -> None:
    """The containers start nevertheless."""
    (node.root / f"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{DRIVER_VERSION}").unlink()
    (node.root / "sbin/ldconfig").unlink()
    (node.root / "proc/devices").write_text(
        f"Character devices:\n{GPU_MAJOR} nvidia\n{CAPS_MAJOR} nvidia-caps\n"
    )
    offering = containers(node, SHIPPED_HOOK if driver == "with hook" else None)
    missing = (offering.common(SYSTEM) | offering.mig(gpu, DEVICE, "1g.24gb+gfx")).missing
    program = "ldconfig" if driver == "with hook" else "nvidia-cdi-hook"
    named = ("nvidia-uvm", f"libnvidia-ml.so.{DRIVER_VERSION}", "/dev/dri", program)
    assert len(missing) == len(named)
    assert all(any(name in text for text in missing) for name in named)
    assert "update-ldcache" not in {hook.args[1] for hook in offering.common(SYSTEM).edits.hooks}


def test_no_runtime_of_the_toolkit_adds_devices(node: NodeFiles) -> None:
    assert containers(node).common(SYSTEM).edits.env == (
        "NVIDIA_VISIBLE_DEVICES=void",
        f"NVIDIA_CTK_LIBCUDA_DIR={LIBRARIES}",
    )


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
    edits = containers(node).common(SYSTEM).edits
    assert edits.env == ("NVIDIA_VISIBLE_DEVICES=void", "FROM=toolkit")
    assert [each.path for each in edits.device_nodes] == ["/dev/nvidiactl"]
    assert [hook.path for hook in edits.hooks] == ["/usr/bin/nvidia-cdi-hook"]


def test_a_toolkit_spec_of_an_earlier_driver_version_is_not_used(node: NodeFiles) -> None:
    write_toolkit_spec(node, "535.183.01")
    edits = containers(node).common(SYSTEM).edits
    assert "FROM=toolkit" not in edits.env
    assert f"{LIBRARIES}/libcuda.so.{DRIVER_VERSION}" in places(edits)
