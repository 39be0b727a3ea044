"""`release/debian-13.sh` runs commands in a root of its own, or reports why it cannot."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(900)


def run_inside(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    script = ("sh", "release/debian-13.sh", *command)
    environment = {**os.environ, **variables}
    return subprocess.run(script, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_a_missing_mirror_is_reported(tmp_path: Path) -> None:
    mirror = "http://127.0.0.1:9/debian"
    done = run_inside("true", XDG_CACHE_HOME=str(tmp_path), DEBIAN_MIRROR=mirror)
    assert done.returncode == 75
    assert done.stderr.startswith("no Debian 13 root: ")
    assert list(tmp_path.iterdir()) == []


def test_a_command_sees_the_tree_and_its_status_is_returned() -> None:
    made = run_inside("true")
    if made.returncode:
        pytest.skip(made.stderr.strip())
    code = "import os, sys; print(sys.version_info[:2], os.path.exists('release/debian-13.sh')); sys.exit(3)"
    done = run_inside("python3", "-c", code)
    assert (done.returncode, done.stdout) == (3, "(3, 13) True\n")
    assert "dradriver/debian-13" not in Path("/proc/self/mounts").read_text()
