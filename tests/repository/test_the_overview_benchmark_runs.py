"""The benchmark of the overview runs."""

import pytest

from benchmarks.overview import main


def test_the_benchmark_prints_a_row_for_each_number_of_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--nodes", "8"]) == 0
    _, _, row = capsys.readouterr().out.splitlines()
    assert row.startswith("| 8 | 64 | 1,216 |")
