"""An emulated Redfish manager, whose hardware connects nothing before the test allows it."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from dradriver_fabric_cxl import FabricPoolsDriver
from dradriver_fabric_cxl.emulator.storage import State
from tests.drivers.fabric_cxl.emulator_process import EmulatorProcess, ManagerFiles


class HeldManager:
    """Runs the process of the emulator: `with HeldManager(folder)`."""

    def __init__(self, folder: Path) -> None:
        self._files = ManagerFiles(folder)
        self._released = folder / "released"
        hook = folder / "hook"
        hook.write_text(f"#!/bin/sh\ncat > /dev/null\nwhile [ ! -e {self._released} ]; do sleep 0.05; done\n")
        hook.chmod(0o755)
        self._process = EmulatorProcess(self._files, ["--hook", str(hook)])

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()  # the hook's process would wait for ever
        self._process.kill()

    def make_driver(self, nodes: Sequence[str]) -> FabricPoolsDriver:
        """Return a pool driver with this manager, whose first hosts are these nodes."""
        manager = {
            "url": self._process.url,
            "caFile": str(self._files.certificate),
            "userFile": str(self._files.user),
            "passwordFile": str(self._files.password),
        }
        hosts = {f"host-{number}": node for number, node in enumerate(nodes, 1)}
        return FabricPoolsDriver(f"{{manager: {manager}, hosts: {hosts}, sizes: [1Gi]}}")

    def release(self) -> None:
        """Let the hardware work."""
        self._released.touch()

    def is_connecting(self) -> bool:
        """Return whether the hardware is asked for a connection."""
        return any(each.location and not each.ended for each in self._state().operations.values())

    def chunks(self) -> list[str]:
        return [path for path in self._state().resources if "/MemoryChunks/" in path]

    def connections(self) -> list[str]:
        return [path for path in self._state().resources if "/Connections/" in path]

    def _state(self) -> State:
        return msgspec.json.decode((self._files.folder / "state.json").read_bytes(), type=State)
