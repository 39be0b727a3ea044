"""After kill -9 at any moment, cards, PCI drivers, records, prepared state and CDI folder agree again.

KILLS in the environment says how many rounds (default 5), SEED repeats a run.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.drivers.gpu_mig.shim.controls import environment
from tests.seeds import choose_seed

ROUNDS = int(os.environ.get("KILLS", "5"))
SEED = choose_seed()


def after_every_kill_all_agree(folder: Path, *library: str) -> None:
    print(f"SEED={SEED} KILLS={ROUNDS}")
    program = (
        sys.executable,
        "-m",
        "tests.drivers.gpu_mig.rounds",
        str(folder),
        str(SEED),
        str(ROUNDS),
        *library,
    )
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert f"{ROUNDS} rounds" in ended.stdout


@pytest.mark.timeout(60 + 2 * ROUNDS)
def test_simulated_cards_the_records_the_state_and_the_cdi_folder_agree(tmp_path: Path) -> None:
    after_every_kill_all_agree(tmp_path)


@pytest.mark.timeout(60 + 2 * ROUNDS)
def test_nvml_the_records_the_state_and_the_cdi_folder_agree(
    tmp_path: Path, shim_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(tmp_path / "cards.state", ["a100-40", "t4"]).items():
        monkeypatch.setenv(name, value)
    after_every_kill_all_agree(tmp_path, str(shim_library))
