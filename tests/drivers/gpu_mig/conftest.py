from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dradriver_gpu_mig.card.nvml import NvmlGpus
from tests.drivers.gpu_mig.shim.build import build_shim
from tests.drivers.gpu_mig.shim.controls import ShimControls, environment
from tests.e2e.bed.programs import COMPILER


@pytest.fixture(scope="session")
def shim_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shim of libnvidia-ml.so.1, built once."""
    if COMPILER is None:
        pytest.skip("no C compiler: the shim of libnvidia-ml can't be built")
    return build_shim(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def shim(
    shim_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., tuple[NvmlGpus, ShimControls]]]:
    """Makes the cards of a node behind the shim, once a test."""
    opened: list[NvmlGpus] = []

    def make(*cards: str, mig: bool = True, sysfs: Path = Path("/sys")) -> tuple[NvmlGpus, ShimControls]:
        for name, value in environment(tmp_path / "cards.state", cards, mig=mig).items():
            monkeypatch.setenv(name, value)
        hardware = NvmlGpus(shim_library, sysfs=sysfs)
        hardware.open()
        opened.append(hardware)
        return hardware, ShimControls(shim_library)

    yield make
    for hardware in opened:
        hardware.close()
