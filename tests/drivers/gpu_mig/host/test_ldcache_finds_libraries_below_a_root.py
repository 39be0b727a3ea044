"""Libraries of a driver that is installed below its own root."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dradriver_gpu_mig.host.ldcache import find_libraries
from dradriver_gpu_mig.host.paths import find_program, resolve
from tests.e2e.bed.programs import COMPILER

LDCONFIG = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a linker's cache made for another root")
@pytest.mark.skipif(LDCONFIG is None or COMPILER is None, reason="no ldconfig, or no C compiler")
def test_one_that_only_the_linkers_cache_knows_is_found(tmp_path: Path) -> None:
    assert LDCONFIG is not None
    assert COMPILER is not None
    folder = tmp_path / "opt/nvidia/lib"
    folder.mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/ld.so.conf").write_text("/opt/nvidia/lib\n")
    library = folder / "libcuda.so.580.82.07"
    command = (COMPILER, "-shared", "-Wl,-soname,libcuda.so.1", "-x", "c", "/dev/null", "-o", str(library))
    subprocess.run(command, check=True)
    subprocess.run([LDCONFIG, "-r", str(tmp_path)], check=True)
    assert find_libraries(tmp_path, "libcuda.so.*") == [library]
    assert find_libraries(tmp_path, "libcudart.so.*") == []
    assert find_libraries(tmp_path, "libcudart.so.*", "libcuda.so.*") == [library]


def test_each_library_is_found_once(tmp_path: Path) -> None:
    folder = tmp_path / "usr/lib64"
    folder.mkdir(parents=True)
    (folder / "libcuda.so.1.2").write_bytes(b"")
    (folder / "libcuda.so.1").symlink_to("libcuda.so.1.2")
    (tmp_path / "lib64").symlink_to("/usr/lib64")
    assert find_libraries(tmp_path, "libcuda.so.*") == [folder / "libcuda.so.1.2"]


def test_an_invalid_cache_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    for content in (
        b"",
        b"ld.so-1.7.0\0\xff\xff\xff\xff",
        b"glibc-ld.so.cache1.1\xff\xff\xff\xff",
        b"x" * 4096,
    ):
        (tmp_path / "etc/ld.so.cache").write_bytes(content)
        assert find_libraries(tmp_path, "libcuda.so.*") == []


def test_links_that_lead_nowhere_end(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("/other")
    (tmp_path / "other").symlink_to("../../one")
    assert resolve(tmp_path, tmp_path / "one").is_relative_to(tmp_path)


def test_a_program_is_one_that_can_be_run(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    program = tmp_path / "usr/bin/nvidia-smi"
    program.write_text("")
    assert find_program(tmp_path, "nvidia-smi") is None
    program.chmod(0o755)
    assert find_program(tmp_path, "nvidia-smi") == program
