"""The program that container runtimes run: copied from the image, or found on the node."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dradriver_gpu_mig.host.hook import SHIPPED_COMMANDS, HookProgram, find_hook, find_ldconfig, install_hook


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    path = tmp_path / "image/libexec/nvidia-cdi-hook"
    make_program(path, "#!/bin/sh\necho one\n")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "plugin"
    path.mkdir()
    return path


def make_program(path: Path, text: str = "#!/bin/sh\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_the_copy_can_be_run(shipped: Path, folder: Path) -> None:
    shipped.chmod(0o400)
    hook = install_hook(folder, shipped)
    assert hook == HookProgram(folder / "nvidia-cdi-hook", SHIPPED_COMMANDS)
    assert subprocess.run([hook.path], capture_output=True, text=True, check=True).stdout == "one\n"


def test_an_equal_copy_is_kept_and_another_version_is_replaced(shipped: Path, folder: Path) -> None:
    """A container that starts meanwhile has opened the old file, which stays as it is."""
    install_hook(folder, shipped)
    target = folder / "nvidia-cdi-hook"
    first = target.stat().st_ino
    install_hook(folder, shipped)
    assert target.stat().st_ino == first
    with target.open() as opened:
        make_program(shipped, "#!/bin/sh\necho two\n")
        install_hook(folder, shipped)
        assert (opened.read(), target.read_text()) == ("#!/bin/sh\necho one\n", "#!/bin/sh\necho two\n")


@pytest.mark.parametrize("moment", ["chmod", "replace"])
def test_a_process_that_dies_while_it_copies_leaves_nothing_that_is_run(
    shipped: Path, folder: Path, moment: str
) -> None:
    """The next start finishes the copy."""
    code = f"""
import os, pathlib, sys
from dradriver_gpu_mig.host.hook import install_hook
pathlib.Path.{moment} = lambda *_: os._exit(9)
install_hook(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
"""
    done = subprocess.run([sys.executable, "-c", code, folder, shipped], check=False)
    assert done.returncode == 9
    assert not (folder / "nvidia-cdi-hook").exists()
    assert install_hook(folder, shipped) is not None
    assert sorted(each.name for each in folder.iterdir()) == ["nvidia-cdi-hook", "nvidia-cdi-hook.lock"]


def test_a_folder_that_cannot_be_written_is_a_warning(
    shipped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert install_hook(tmp_path / "missing", shipped) is None
    assert "nvidia-cdi-hook cannot be written" in caplog.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_a_folder_from_which_nothing_can_be_executed_is_a_warning(shipped: Path, folder: Path) -> None:
    code = (
        "import sys, pathlib; from dradriver_gpu_mig.host.hook import install_hook;"
        "print(install_hook(*map(pathlib.Path, sys.argv[1:])))"
    )
    script = 'mount -t tmpfs -o noexec none "$1" && exec "$0" -c "$3" "$1" "$2"'
    command = ["unshare", "--mount", "sh", "-c", script, sys.executable, str(folder), str(shipped), code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unshare failed" in done.stderr:
        pytest.skip("mount namespaces are not permitted here")
    assert done.stdout == "None\n", done.stderr
    assert "cannot be executed" in done.stderr


def test_an_installation_without_the_program_installs_nothing(folder: Path, tmp_path: Path) -> None:
    assert install_hook(folder, tmp_path / "none") is None
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("place", "seen_as"),
    [
        ("node/run/nvidia/driver/usr/bin", "/run/nvidia/driver/usr/bin"),
        ("node/usr/local/nvidia/toolkit", "/usr/local/nvidia/toolkit"),
        ("node/usr/bin", "/usr/bin"),
    ],
)
def test_a_program_of_the_node_is_found_below_the_drivers_root_or_on_the_node(
    tmp_path: Path, place: str, seen_as: str
) -> None:
    make_program(tmp_path / place / "nvidia-cdi-hook")
    root = tmp_path / "node"
    found = find_hook(root / "run/nvidia/driver", Path("/run/nvidia/driver"), root)
    assert found == HookProgram(Path(seen_as) / "nvidia-cdi-hook")


def test_the_first_root_with_ldconfig_is_used(tmp_path: Path) -> None:
    roots = ((tmp_path / "node", Path("/")), (tmp_path / "driver", Path("/run/nvidia/driver")))
    assert find_ldconfig(roots) is None
    make_program(tmp_path / "driver/usr/sbin/ldconfig")
    assert find_ldconfig(roots) == Path("/run/nvidia/driver/usr/sbin/ldconfig")
    make_program(tmp_path / "node/usr/sbin/ldconfig")
    (tmp_path / "node/sbin").symlink_to("/usr/sbin")
    assert find_ldconfig(roots) == Path("/sbin/ldconfig")
