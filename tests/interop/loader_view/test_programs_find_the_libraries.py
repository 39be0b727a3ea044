"""A program in a container finds NVIDIA's libraries, whatever the distributions of node and image are.

runc starts each container with our edits. It runs NVIDIA's own hook, which the driver has copied to the node.
"""

import shutil
from pathlib import Path

import pytest

import dradriver as dra
from dradriver_gpu_mig.card import Gpu, System
from dradriver_gpu_mig.card.simulator import SimulatedGpus
from dradriver_gpu_mig.container import GpuContainers
from dradriver_gpu_mig.host.hook import HookProgram, install_hook
from tests.drivers.gpu_mig.shim.build import DRIVER_VERSION
from tests.drivers.gpu_mig.shim.node import Layout, NodeFiles
from tests.drivers.guest.cache import UnavailableError
from tests.e2e.bed import programs
from tests.interop.loader_view import containers, roots
from tests.interop.loader_view.containers import make_bundle, run

pytestmark = [
    pytest.mark.skipif(bool(containers.find_missing()), reason=containers.find_missing() or "-"),
    pytest.mark.skipif(
        bool(programs.missing("nvidia-cdi-hook")), reason=programs.missing("nvidia-cdi-hook") or "-"
    ),
    pytest.mark.timeout(300),
]

LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> HookProgram:
    """Return the hook that is shipped, in the folder of the driver on the node."""
    hook = install_hook(tmp_path_factory.mktemp("plugin"), programs.program("nvidia-cdi-hook"))
    assert hook is not None
    return hook


@pytest.fixture(scope="module", params=Layout, ids=lambda layout: layout.name)
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NodeFiles:
    node = NodeFiles(tmp_path_factory.mktemp("node"), layout=request.param)
    node.add_libraries()
    return node


@pytest.fixture(params=roots.ROOTS)
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a bundle whose root file system is a copy of a distribution's."""
    try:
        return make_bundle(request.param, tmp_path)
    except UnavailableError as error:
        pytest.skip(str(error))


def make_edits(node: NodeFiles, hook: HookProgram | None) -> dra.ContainerEdits:
    offered = GpuContainers(node.host, hook).common(System(DRIVER_VERSION, "13.0"))
    assert hook is None or not offered.missing
    return (offered | GpuContainers(node.host, hook).gpu(find_gpu())).edits


def find_gpu() -> Gpu:
    hardware = SimulatedGpus(["a100-40"])
    hardware.open()
    return hardware.gpus()[0]


def test_the_loader_of_every_distribution_finds_the_libraries_of_every_node(
    node: NodeFiles, hook: HookProgram, image: Path
) -> None:
    done = run(image, make_edits(node, hook), roots.PROGRAM, *LIBRARIES)
    assert (done.returncode, done.stdout.split()) == (0, list(LIBRARIES)), done.stderr


def test_the_cache_of_the_dynamic_linker_has_the_libraries(
    node: NodeFiles, hook: HookProgram, image: Path
) -> None:
    ldconfig = next((image / "rootfs").glob("sbin/ldconfig*"), None)
    if ldconfig is None:
        pytest.skip("musl has no cache")
    done = run(image, make_edits(node, hook), "/bin/sh", "-c", "exec /sbin/ldconfig -p")
    found = {line.split()[0]: line.split()[-1] for line in done.stdout.splitlines() if " => " in line}
    folder = str(node.libraries.relative_to(node.driver_root)).removeprefix("usr")
    # Where /lib is a link to /usr/lib, the cache may have either.
    assert [found.get(name, "").removeprefix("/usr") for name in LIBRARIES] == [
        f"{folder}/{name}" for name in LIBRARIES
    ]


def test_without_a_hook_only_images_that_search_the_folder_of_the_node_find_them(
    node: NodeFiles, image: Path
) -> None:
    """For all others, the driver ships the hook."""
    done = run(image, make_edits(node, None), roots.PROGRAM, *LIBRARIES)
    folder = str(node.libraries.relative_to(node.driver_root))
    is_searched = "alpine" not in image.name and folder.endswith("x86_64-linux-gnu")
    expected = (0, list(LIBRARIES)) if is_searched else (1, [])
    assert (done.returncode, done.stdout.split()) == expected, done.stderr


def test_the_root_of_the_container_may_be_read_only(node: NodeFiles, hook: HookProgram, image: Path) -> None:
    """The hook writes before the root is mounted again without the right to write."""
    done = run(image, make_edits(node, hook), roots.PROGRAM, *LIBRARIES, read_only=True)
    assert (done.returncode, done.stdout.split()) == (0, list(LIBRARIES)), done.stderr


@pytest.mark.parametrize(("version", "is_used"), [("999.10.01", True), ("470.10.01", False)])
def test_an_image_with_newer_compatibility_libraries_uses_them(
    node: NodeFiles, hook: HookProgram, image: Path, version: str, is_used: bool
) -> None:
    if "alpine" in image.name:
        pytest.skip("CUDA's compatibility libraries are for glibc")
    compat = image / "rootfs/usr/local/cuda/compat"
    compat.mkdir(parents=True)
    shutil.copy2(node.libraries / f"libcuda.so.{DRIVER_VERSION}", compat / f"libcuda.so.{version}")
    (compat / "libcuda.so.1").symlink_to(f"libcuda.so.{version}")
    done = run(image, make_edits(node, hook), "/bin/sh", "-c", "exec /sbin/ldconfig -p")
    found = [line.split()[-1] for line in done.stdout.splitlines() if line.split()[0] == "libcuda.so.1"]
    assert found[0].startswith("/usr/local/cuda/compat/") is is_used, done.stdout


def test_programs_of_the_image_are_still_found(node: NodeFiles, hook: HookProgram, image: Path) -> None:
    """The image's own libraries stay, and are used by its own programs."""
    done = run(image, make_edits(node, hook), "/bin/sh", "-c", f"{roots.PROGRAM} && echo runs")
    assert done.stdout == "runs\n", done.stderr
