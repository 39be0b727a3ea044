"""`dradriver webhook` in its own process."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.unit.admission.certificates import Pair

ROOT = Path(__file__).parents[3]
DRIVER = "tests.unit.admission.leds:LedDriver"


@asynccontextmanager
async def webhook_process(folder: Path, pair: Pair, *options: str) -> AsyncIterator[tuple[Process, int]]:
    """Yield the process and its port."""
    cert_file, key_file = map(str, pair.write(folder))
    place = ("--host", "127.0.0.1", "--port", "0")
    files = ("--tls-cert-file", cert_file, "--tls-private-key-file", key_file)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "dradriver.cli", "webhook", "--driver", DRIVER, *place, *files, *options,
        cwd=ROOT, stdout=PIPE, stderr=PIPE,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        first = (await process.stderr.readline()).decode()
        assert "on port " in first, first + (await process.stderr.read()).decode()
        yield process, int(first.rpartition("on port ")[2].rstrip(".\n"))
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
