"""kill -9 at any moment of making and destroying instances: cards, records, state and CDI folder agree again.

KILLS in the environment says how many rounds (default 8), SEED repeats a run.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROUNDS = int(os.environ.get("KILLS", "8"))
SEED = int(os.environ.get("SEED", "0")) or random.SystemRandom().randrange(1, 2**32)


@pytest.mark.timeout(60 + 2 * ROUNDS)
def test_after_a_kill_the_cards_the_records_the_state_and_the_cdi_folder_agree(tmp_path: Path) -> None:
    print(f"SEED={SEED} KILLS={ROUNDS}")
    program = (sys.executable, "-m", "tests.drivers.gpu_mig.rounds", str(tmp_path), str(SEED), str(ROUNDS))
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert f"{ROUNDS} rounds" in ended.stdout
