"""Random damage to the files of the prepared state: the driver starts, rebuilds, and never shares a device.

One process starts on one damaged file after another; a process that crashes or hangs is a failure. KILLS in the
environment sets the number of files (ten times as many), SEED repeats a run.
"""

import asyncio
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.seeds import choose_seed

FILES = 10 * int(os.environ.get("KILLS", "6"))
SEED = choose_seed()
LONGEST_SECONDS = 60


@pytest.mark.timeout(60 + FILES)
async def test_with_any_damage_the_driver_starts_and_gives_no_device_twice(tmp_path: Path) -> None:
    print(f"SEED={SEED} FILES={FILES}")
    errors = tmp_path / "errors"
    with errors.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.faults.damaged_states", str(tmp_path), str(SEED), "0", str(FILES)),
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    assert process.stdout is not None
    outcomes: Counter[str] = Counter()
    try:
        for _ in range(FILES):
            case, outcome = [await read_line(process.stdout) for _ in ("case", "outcome")]
            assert outcome, f"SEED={SEED}: file {case}\n{errors.read_text()}"
            outcomes[outcome] += 1
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    print(dict(outcomes))
    assert outcomes.keys() == {"set aside", "rebuilt in place", "knew all"}


async def read_line(output: asyncio.StreamReader) -> str:
    """Return the next line; "" if there is none in time."""
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            return (await output.readline()).decode().strip()
    except TimeoutError:
        return ""
