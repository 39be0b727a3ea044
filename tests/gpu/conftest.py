"""The GPUs of this machine, and a check that no test has changed a setting of them."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from dradriver import Device
from dradriver.testing import Harness
from dradriver_gpu_mig import GpuDriver
from dradriver_gpu_mig.card import DriverNotLoadedError, Gpu, LibraryNotFoundError, NoPermissionError
from dradriver_gpu_mig.card.nvml import NvmlGpus
from dradriver_gpu_mig.host.hook import install_hook
from tests.drivers.gpu_mig import nvidia_smi
from tests.drivers.guest.cache import UnavailableError
from tests.e2e.bed import programs
from tests.gpu.cuda import build_cuda_program, make_image

_SETTINGS: Final = (
    "uuid,compute_mode,persistence_mode,mig.mode.current,mig.mode.pending,ecc.mode.current,power.limit,"
    "clocks.max.sm,accounting.mode"
)

MakeNode = Callable[..., Harness]


@pytest.fixture(scope="session")
def hardware() -> Iterator[NvmlGpus]:
    """Return NVML on the GPUs of this machine."""
    hardware = NvmlGpus()
    try:
        hardware.open()
    except (DriverNotLoadedError, LibraryNotFoundError, NoPermissionError) as error:
        pytest.skip(f"no GPU of NVIDIA: {error}")
    if hardware.count() == 0:
        pytest.skip("the driver of NVIDIA is here, but no GPU")
    yield hardware
    hardware.close()


@pytest.fixture(scope="session", autouse=True)
def settings_are_unchanged(hardware: NvmlGpus) -> Iterator[None]:
    before = _read_settings()
    yield
    assert _read_settings() == before


def _read_settings() -> str:
    code, text = nvidia_smi.run_nvidia_smi(f"--query-gpu={_SETTINGS}", "--format=csv,noheader")
    assert code == 0, text
    return text


@pytest.fixture
def gpu(hardware: NvmlGpus) -> Gpu:
    """Return a GPU that is not divided."""
    whole = [gpu for gpu in hardware.gpus() if gpu.mig is None or not gpu.mig.current]
    if not whole:
        pytest.skip("MIG is on on every GPU")
    return whole[0]


@pytest.fixture(scope="session")
def cuda_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if programs.COMPILER is None:
        pytest.skip("no C compiler: the CUDA program can't be built")
    return build_cuda_program(tmp_path_factory.mktemp("cuda"))


@pytest.fixture(params=["debian", "ubuntu"])
def image(request: pytest.FixtureRequest, tmp_path: Path, cuda_program: Path) -> Path:
    """Return a bundle with the CUDA program. NVIDIA's libraries need glibc, so there is none of Alpine."""
    try:
        return make_image(request.param, tmp_path, cuda_program)
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[MakeNode]:
    """Start the driver on this machine, at most once in a test. Its hook is the one of our image."""
    started: list[Harness] = []

    def start(settings: str) -> Harness:
        node = Harness(lambda: make_driver(settings), tmp_path)
        started.append(node.__enter__())
        return node

    with pytest.MonkeyPatch.context() as patch:
        if not programs.missing("nvidia-cdi-hook"):
            patch.setattr(install_hook, "__defaults__", (programs.program("nvidia-cdi-hook"),))
        yield start
        for node in started:
            node.__exit__(None, None, None)


def make_driver(settings: str) -> GpuDriver:
    """Return the driver with settings, which never simulates."""
    driver = GpuDriver(settings)
    driver.simulate = "never"
    return driver


def find_device(node: Harness, gpu: Gpu) -> Device:
    """Return the device that the driver offers for an undivided GPU."""
    (pool,) = node.discover()
    (device,) = (each for each in pool.devices if _get_uuid(each) == gpu.uuid)
    return device


def _get_uuid(device: Device) -> str | None:
    attribute = device.attributes.get("uuid")
    return attribute.string if attribute is not None else None


def list_open_nodes() -> list[str]:
    """Return the device nodes of GPUs that this process has open."""
    opened = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing
            opened.append(str(descriptor.readlink()))
    return sorted(path for path in opened if path.startswith("/dev/nvidia"))
