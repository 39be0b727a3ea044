"""The hardware behind the fabric: called when something is connected to a host or disconnected from it."""

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec

__all__ = ["HardwareCall", "HardwareError", "HardwareHook", "NoHook", "ProgramHook"]

_TEXT_LIMIT: Final = 500


class HardwareCall(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the hardware.

    Attributes:
        operation: what happens.
        kind: what is connected.
        connection: URI of the connection.
        host: ID of the host's system, for example "host-1".
        system_uuid: UUID of the host's system.
        device: URI of the memory chunk or of the accelerator.
        serial: serial number of the memory, as in `/sys/bus/cxl/devices/memN/serial`, or of the accelerator's
            PCI device.
        bytes: size of the memory; 0 for an accelerator.
    """

    operation: Literal["connect", "disconnect"]
    kind: Literal["memory", "accelerator"]
    connection: str
    host: str
    system_uuid: str
    device: str
    serial: int
    bytes: int


class HardwareError(Exception):
    """The hardware rejected a change. The text is shown to clients."""


class HardwareHook(Protocol):
    """Changes the hardware of hosts."""

    async def __call__(self, call: HardwareCall, /) -> None:
        """Apply one change. The same call can come again after a crash of the emulator, and must then succeed.

        Raises:
            HardwareError: the change is not possible.
        """


class NoHook:
    """A fabric without hardware."""

    async def __call__(self, call: HardwareCall, /) -> None:
        """Do nothing."""


class ProgramHook:
    """Runs a program for each change, with the call as a JSON object in its standard input.

    If the emulator dies while the program runs, the program continues, and the next emulator runs it again with
    the same call.
    """

    def __init__(self, program: Path) -> None:
        self._program = program

    async def __call__(self, call: HardwareCall, /) -> None:
        """Run the program and wait for its end.

        Raises:
            HardwareError: it cannot be started, or its exit status is not 0.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                self._program, stdin=PIPE, stdout=DEVNULL, stderr=PIPE
            )
        except OSError as error:
            raise HardwareError(f"{self._program}: {error.strerror}") from error
        try:
            _, errors = await process.communicate(msgspec.json.encode(call))
        except asyncio.CancelledError:
            if process.returncode is None:
                process.terminate()
            await process.wait()
            raise
        if process.returncode:
            text = errors.decode(errors="replace").strip()[-_TEXT_LIMIT:]
            raise HardwareError(f"{self._program.name}: exit status {process.returncode}: {text}")
