"""README says how many cases hold the embedded servers against the real ones."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("suite", "sentence"),
    [
        ("test_apiserver_real.py", r"One suite of (\d+) cases"),
        ("test_kubelet_real.py", r"one of (\d+) against the embedded kubelet"),
    ],
)
def test_it_counts_right(suite: str, sentence: str) -> None:
    command = (
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-m",
        "e2e",
        f"tests/conformance/{suite}",
    )
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    told = re.search(sentence, (ROOT / "README.md").read_text())
    assert told is not None
    assert int(told[1]) == sum("::" in line for line in listed.splitlines())
