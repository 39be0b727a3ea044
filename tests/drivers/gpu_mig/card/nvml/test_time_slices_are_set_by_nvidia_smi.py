"""Time slices are set by the driver's `nvidia-smi`, because NVML has no call for them."""

from pathlib import Path

import pytest

from dradriver_gpu_mig.card import NotSupportedError, TimeSlice
from dradriver_gpu_mig.card.nvml import NvmlGpus
from dradriver_gpu_mig.card.simulator import SimulatedGpus


def write_program(root: Path, script: str) -> None:
    (root / "usr/bin").mkdir(parents=True)
    program = root / "usr/bin/nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_nvidia_smi_gets_the_gpu_and_the_time_slice(tmp_path: Path) -> None:
    write_program(tmp_path, f'echo "$@" > {tmp_path}/said')
    NvmlGpus(driver_root=tmp_path).set_time_slice("GPU-1", TimeSlice.LONG)
    assert (tmp_path / "said").read_text() == "compute-policy -i GPU-1 --set-timeslice 3\n"


def test_it_finds_the_drivers_library_and_no_other_of_the_same_folder(
    tmp_path: Path, shim_library: Path
) -> None:
    """The host's folder of libraries has the host's libc in it, and a program can't run with two of them."""
    library = tmp_path / "lib64" / "libnvidia-ml.so.1"
    library.parent.mkdir()
    library.write_bytes(shim_library.read_bytes())
    for foreign in ("libc.so.6", "libpthread.so.0", "libdl.so.2", "libm.so.6"):
        (library.parent / foreign).write_bytes(b"another distribution's")
    write_program(tmp_path, f"grep -o '[^/]*/libnvidia-ml.so.1$' /proc/self/maps | sort -u > {tmp_path}/maps")
    NvmlGpus(library, driver_root=tmp_path).set_time_slice("GPU-1", TimeSlice.LONG)
    assert (tmp_path / "maps").read_text() == "lib64/libnvidia-ml.so.1\n"


def test_the_error_of_nvidia_smi_is_reported(tmp_path: Path) -> None:
    write_program(tmp_path, "echo 'not supported on this board' >&2; exit 3")
    with pytest.raises(NotSupportedError, match="not supported on this board"):
        NvmlGpus(driver_root=tmp_path).set_time_slice("GPU-1", TimeSlice.SHORT)


def test_a_driver_without_it_has_no_time_slices(tmp_path: Path) -> None:
    with pytest.raises(NotSupportedError, match="nvidia-smi"):
        NvmlGpus(driver_root=tmp_path).set_time_slice("GPU-1", TimeSlice.SHORT)


def test_a_simulated_card_takes_them() -> None:
    hardware = SimulatedGpus(mig=False)
    hardware.open()
    (gpu,) = hardware.gpus()
    hardware.set_time_slice(gpu.uuid, TimeSlice.MEDIUM)
    assert hardware.time_slice(gpu.uuid) is TimeSlice.MEDIUM
