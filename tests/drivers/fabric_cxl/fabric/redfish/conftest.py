from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.drivers.fabric_cxl.emulator_process import EmulatorProcess, ManagerFiles
from tests.drivers.fabric_cxl.fabric.redfish.tiny_manager import TinyManager


@pytest.fixture
def files(tmp_path: Path) -> ManagerFiles:
    return ManagerFiles(tmp_path)


@pytest.fixture
def own_emulator(files: ManagerFiles) -> Iterator[EmulatorProcess]:
    """An emulator that the test may kill."""
    emulator = EmulatorProcess(files)
    emulator.start()
    yield emulator
    emulator.kill()


@pytest.fixture
async def manager(files: ManagerFiles) -> AsyncIterator[TinyManager]:
    async with TinyManager(files) as manager:
        yield manager
