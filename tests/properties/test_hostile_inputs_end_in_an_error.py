"""Whatever claims and slices say, the allocator answers soon, in little memory, with no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COUNT = int(os.environ.get("HOSTILE_INPUTS", "400"))  # the whole proof takes 10000, and minutes


@pytest.mark.timeout(60 + COUNT)
def test_hostile_inputs() -> None:
    command = [sys.executable, "-m", "tests.properties.hostile_inputs", "0", str(COUNT)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
