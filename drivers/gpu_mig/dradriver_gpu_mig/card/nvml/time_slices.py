"""Sets time slices with the driver's `nvidia-smi`, because NVML has no call for them."""

import os
import subprocess
from pathlib import Path

from dradriver_gpu_mig.card.errors import GpuError, NotSupportedError
from dradriver_gpu_mig.card.values import TimeSlice
from dradriver_gpu_mig.host.paths import find_program

__all__ = ["set_time_slice"]


def set_time_slice(gpu: str, time_slice: TimeSlice, driver_root: Path, library: Path | None) -> None:
    """Set the time slice of a GPU. Blocking, usually for at most a second.

    Args:
        gpu: UUID of the GPU.
        time_slice: the time slice.
        driver_root: folder below which this function searches for `nvidia-smi`.
        library: the libnvidia-ml.so.1 for `nvidia-smi`; None: the library that `nvidia-smi` finds itself.

    Raises:
        NotSupportedError: `nvidia-smi` does not exist, or rejects the call.
        GpuError: `nvidia-smi` cannot run, or it takes longer than 30 seconds.
    """
    program = find_program(driver_root, "nvidia-smi")
    if program is None:
        raise NotSupportedError(
            f"time slice of {gpu}: nvidia-smi sets it, and does not exist below {driver_root}"
        )
    environment = dict(os.environ)
    if library is not None:
        # Only this file is added, not its folder: the folder may be the host's and contain another libc than
        # this container.
        environment["LD_PRELOAD"] = f"{library}:{environment.get('LD_PRELOAD', '')}"
    command = [str(program), "compute-policy", "-i", gpu, "--set-timeslice", str(time_slice.value)]
    try:
        completed = subprocess.run(  # noqa: S603 - the driver's own program
            command, env=environment, capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GpuError(f"time slice of {gpu}: nvidia-smi failed: {error}") from error
    if completed.returncode:
        output = (completed.stderr or completed.stdout).strip()
        raise NotSupportedError(f"time slice of {gpu}: nvidia-smi rejected it: {output}")
