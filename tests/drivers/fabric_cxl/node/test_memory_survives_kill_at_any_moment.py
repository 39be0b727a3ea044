"""After kill -9 at any moment of attach and take back, kernel and records agree again, and memory is cleared.

KILLS in the environment says how many rounds (default 4), SEED repeats a run.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.seeds import choose_seed

ROUNDS = int(os.environ.get("KILLS", "4"))
SEED = choose_seed()


@pytest.mark.timeout(60 + 3 * ROUNDS)
def test_kernel_and_records_agree_after_every_kill(tmp_path: Path) -> None:
    print(f"SEED={SEED} KILLS={ROUNDS}")
    program = (
        sys.executable,
        "-m",
        "tests.drivers.fabric_cxl.node_rounds",
        str(tmp_path),
        str(SEED),
        str(ROUNDS),
    )
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert f"{ROUNDS} rounds" in ended.stdout
