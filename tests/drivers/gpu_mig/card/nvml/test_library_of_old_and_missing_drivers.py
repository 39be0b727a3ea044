"""Old drivers, drivers below another root, and nodes without a driver."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dradriver_gpu_mig.card import LibraryNotFoundError
from dradriver_gpu_mig.card.nvml import NvmlGpus, find_library
from dradriver_gpu_mig.card.simulator import CATALOG
from tests.drivers.gpu_mig.shim.build import build_shim
from tests.drivers.gpu_mig.shim.controls import environment
from tests.e2e.bed.programs import COMPILER

READ = """
import sys
from pathlib import Path
import msgspec
from dradriver_gpu_mig.card.nvml import NvmlGpus
hardware = NvmlGpus(Path(sys.argv[1]))
hardware.open()
gpus = hardware.gpus()
names = [[profile.name for profile in hardware.profiles(gpu.uuid)] for gpu in gpus]
made = hardware.create_gpu_instance(gpus[0].uuid, 9, hardware.profiles(gpus[0].uuid)[-2].placements[0])
device = hardware.create_compute_instance(gpus[0].uuid, made)
sys.stdout.buffer.write(msgspec.json.encode([[gpu.brand for gpu in gpus], names, device.gpu_instance]))
hardware.close()
"""


@pytest.mark.skipif(COMPILER is None, reason="no C compiler: the shim of libnvidia-ml can't be built")
def test_an_old_driver_serves_and_its_profiles_get_their_names(tmp_path: Path) -> None:
    """Calls that came later are features that are absent, not errors."""
    library = build_shim(tmp_path, "OLD_DRIVER")
    variables = environment(tmp_path / "state", list(CATALOG))
    done = subprocess.run(
        [sys.executable, "-c", READ, str(library)],
        env={**os.environ, **variables, "PYTHONPATH": "."},
        check=True,
        stdout=subprocess.PIPE,
    )
    brands, names, instance = msgspec.json.decode(done.stdout)
    assert set(brands) == {""}
    assert [sorted(each) for each in names] == [
        sorted(p.name for p in card.profiles) for card in CATALOG.values()
    ]
    assert instance == 1


def test_a_node_without_a_driver_gets_an_error(tmp_path: Path) -> None:
    with pytest.raises(LibraryNotFoundError, match="check that NVIDIA's driver is installed"):
        NvmlGpus(tmp_path / "libnvidia-ml.so.1").open()


def test_a_root_without_a_driver_is_named(tmp_path: Path) -> None:
    with pytest.raises(LibraryNotFoundError, match=str(tmp_path)):
        NvmlGpus(driver_root=tmp_path).open()


def test_the_library_is_found_below_the_drivers_root(tmp_path: Path) -> None:
    """Links of another root lead to below it."""
    folder = tmp_path / "usr/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True)
    (folder / "libnvidia-ml.so.580.82.07").write_bytes(b"")
    (folder / "libnvidia-ml.so.1").symlink_to("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.82.07")
    assert find_library(tmp_path) == folder / "libnvidia-ml.so.580.82.07"


def test_there_may_be_none(tmp_path: Path) -> None:
    assert find_library(tmp_path) is None
