"""For any claims and slices, the allocator answers in limited time and memory, without a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COUNT = int(os.environ.get("HOSTILE_INPUTS", "200"))  # the full check has 10000 and takes minutes


@pytest.mark.timeout(60 + COUNT)
def test_hostile_inputs() -> None:
    command = [sys.executable, "-m", "tests.properties.allocator.hostile_inputs", "0", str(COUNT)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
