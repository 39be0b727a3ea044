"""Two bitstreams are programmed at once, and no copy of either is in memory."""

import json
import subprocess
import sys

MIB = 24


def test_the_anonymous_memory_is_less_than_one_bitstream() -> None:
    command = [sys.executable, "-m", "benchmarks.bitstreams", str(MIB)]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    assert found["bitstream"] == MIB
    assert found["anonymous, peak"] - found["anonymous before"] < MIB
