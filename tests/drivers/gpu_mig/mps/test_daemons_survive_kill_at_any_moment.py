"""After kill -9 before any change, the next call of the kubelet finds or makes what it needs."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(120)
def test_a_killed_process_is_continued_by_the_next_one(tmp_path: Path) -> None:
    program = (sys.executable, "-m", "tests.drivers.gpu_mig.mps.kill_rounds", str(tmp_path / "node"))
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert int(ended.stdout.split()[0]) > 0
