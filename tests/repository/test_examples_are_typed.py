"""Authors copy the examples, so they pass mypy --strict unmodified."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)  # mypy without a cache reads all of dradriver
def test_the_examples_pass_mypy_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    monkeypatch.chdir(ROOT)
    report, errors, code = api.run(["--strict", "examples"])
    assert code == 0, report + errors


def test_the_driver_of_the_example_stays_about_thirty_lines() -> None:
    text = (ROOT / "examples/loop/dradriver_loop/driver.py").read_text()
    code = [line for line in text.splitlines() if line.strip() and not line.strip().startswith(('"""', "#"))]
    assert len(code) <= 36
