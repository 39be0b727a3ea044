"""For any selector, one evaluation ends within the CPU time of twelve additions for each step, and 64 MiB.

A separate process evaluates hostile selectors with limited memory. It compares the CPU time of each one with
that of additions in a Python loop; the best of several runs counts. KILLS in the environment,
which `make faults` sets, scales their number; SEED is the first seed. `tests/properties/cel` has the law in
terms of calls and bytes, without a measurement of time.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("KILLS", "0"))
SEED = int(os.environ.get("SEED", "0"))
SELECTORS = 20 * KILLS


@pytest.mark.skipif(KILLS == 0, reason="it measures CPU time, which `make faults` does")
@pytest.mark.timeout(60 + SELECTORS)
def test_an_evaluation_ends_within_its_time_and_memory() -> None:
    print(f"SEED={SEED} KILLS={KILLS}")
    command = [sys.executable, "-m", "tests.properties.cel.hostile_selectors", str(SEED), str(SELECTORS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
