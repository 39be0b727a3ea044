"""How long processes take turns: NVML has no call for it, the driver's `nvidia-smi` has."""

import os
import subprocess
from pathlib import Path

from dradriver_gpu_mig.card.errors import CardError, NotSupportedError
from dradriver_gpu_mig.card.values import TimeSlice
from dradriver_gpu_mig.host.programs import find_program

__all__ = ["set_time_slice"]


def set_time_slice(gpu: str, time_slice: TimeSlice, driver_root: Path, library: Path | None) -> None:
    """Sets the time slice of a GPU. Blocking, for a second at most.

    Args:
        gpu: its UUID.
        time_slice: how long.
        driver_root: where `nvidia-smi` is looked for.
        library: the libnvidia-ml.so.1 that it is to use, where it would find none by itself.

    Raises:
        NotSupportedError: there is no `nvidia-smi`, or it refuses.
    """
    program = find_program(driver_root, "nvidia-smi")
    if program is None:
        raise NotSupportedError(f"time slices are set by nvidia-smi, which is not below {driver_root}")
    environment = dict(os.environ)
    if library is not None:
        # This one file: its folder may be the host's, whose libc is not this container's.
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
