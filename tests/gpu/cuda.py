"""A CUDA program of the tests, on this machine and in containers, and what it prints."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import dradriver as dra
from dradriver_gpu_mig.card import Gpu
from tests.e2e.bed.programs import COMPILER
from tests.interop.loader_view import containers

__all__ = [
    "ILLEGAL_ADDRESS",
    "OUT_OF_MEMORY",
    "SUM",
    "build_cuda_program",
    "make_image",
    "parse",
    "run_cuda",
    "run_in_container",
    "select_gpu",
]

_SOURCE: Final = Path(__file__).with_name("cuda_program.c")
_IN_IMAGE: Final = "usr/bin/cuda-program"
_SECONDS: Final = 60
SUM: Final = 64 * 64
"""The sum that the action `add` prints: one of each thread."""
OUT_OF_MEMORY: Final = 2
ILLEGAL_ADDRESS: Final = 700


def build_cuda_program(folder: Path) -> Path:
    """Compile the program into a folder."""
    assert COMPILER is not None
    program = folder / "cuda-program"
    subprocess.run((COMPILER, "-O1", "-o", str(program), str(_SOURCE), "-ldl"), check=True)
    return program


def select_gpu(gpu: Gpu) -> dict[str, str]:
    """Return the environment in which the program uses a GPU."""
    return {**os.environ, "CUDA_VISIBLE_DEVICES": gpu.uuid}


def run_cuda(program: Path, gpu: Gpu, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the program on a GPU of this machine."""
    command = (str(program), *words)
    return subprocess.run(
        command,
        env=select_gpu(gpu),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )


def make_image(distribution: str, folder: Path, program: Path) -> Path:
    """Return a bundle that has the program.

    Raises:
        UnavailableError: the packages of the distribution can't be fetched.
    """
    bundle = containers.make_bundle(distribution, folder)
    shutil.copy2(program, bundle / "rootfs" / _IN_IMAGE)
    return bundle


def run_in_container(image: Path, edits: dra.ContainerEdits, *words: str) -> dict[str, str]:
    """Run the program in a container, and return the printed facts."""
    done = containers.run(image, edits, f"/{_IN_IMAGE}", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return parse(done.stdout)


def parse(output: str) -> dict[str, str]:
    """Return the printed facts by name."""
    return dict(line.rsplit(" ", 1) for line in output.splitlines() if " " in line)
