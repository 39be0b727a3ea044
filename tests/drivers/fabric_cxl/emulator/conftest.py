"""Running emulators."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dradriver_fabric_cxl.emulator import Emulator, EmulatorSettings, NoHook
from tests.drivers.fabric_cxl.emulator.processes import PASSWORD, USER, Client, EmulatorProcess, open_client
from tests.unit.admission.certificates import make_pair


@pytest.fixture
def emulator(tmp_path: Path) -> EmulatorProcess:
    """An emulator in a process of its own, for tests that give it options or end it."""
    return EmulatorProcess(tmp_path)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """A client of an emulator in this process: that starts much faster."""
    certificate, key = make_pair("emulator").write(tmp_path)
    emulator = Emulator(
        EmulatorSettings(),
        state_file=tmp_path / "state.json",
        certificate=certificate,
        key=key,
        user=USER,
        password=PASSWORD,
        hook=NoHook(),
    )
    url = await emulator.start(0)
    async with open_client(url, certificate) as client:
        yield client
    await emulator.stop()
