"""Sets time slices with the driver's `nvidia-smi`, because NVML has no call for them."""

import os
import subprocess
from pathlib import Path

from dradriver_gpu_mig.card.errors import CardError, NotSupportedError
from dradriver_gpu_mig.card.values import TimeSlice
from dradriver_gpu_mig.host.programs import find_program

__all__ = ["set_time_slice"]


def set_time_slice(gpu: str, time_slice: TimeSlice, driver_root: Path, library: Path | None) -> None:
    """Set the time slice of a GPU. Blocking, usually for at most a second.

    Args:
        gpu: UUID of the GPU.
        time_slice: the time slice.
        driver_root: folder below which `nvidia-smi` is looked for.
        library: the libnvidia-ml.so.1 for `nvidia-smi`; None: the one that it finds itself.

    Raises:
        NotSupportedError: there is no `nvidia-smi`, or it rejects the call.
        CardError: `nvidia-smi` cannot run, or it takes longer than 30 seconds.
    """
    program = find_program(driver_root, "nvidia-smi")
    if program is None:
        raise NotSupportedError(f"time slices are set by nvidia-smi, which is not below {driver_root}")
    environment = dict(os.environ)
    if library is not None:
        # Only this file is added: its folder may be the host's, whose libc differs from this container's.
        environment["LD_PRELOAD"] = f"{library}:{environment.get('LD_PRELOAD', '')}"
    command = [str(program), "compute-policy", "-i", gpu, "--set-timeslice", str(time_slice.value)]
    try:
        done = subprocess.run(  # noqa: S603 - the driver's own program
            command, env=environment, capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CardError(f"nvidia-smi can't set the time slice of {gpu}: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise NotSupportedError(f"nvidia-smi does not set the time slice of {gpu}: {said}")
