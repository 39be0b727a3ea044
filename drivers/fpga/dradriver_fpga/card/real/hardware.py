"""`FpgaHardware` for the cards of this node."""

import logging
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from dradriver_fpga.card.errors import (
    BusyError,
    CardGoneError,
    FpgaError,
    FpgaNotSupportedError,
    ManagerFailedError,
    ProgrammingTimedOutError,
    TargetNotFoundError,
    ToolFailedError,
)
from dradriver_fpga.card.hardware import FpgaHardware
from dradriver_fpga.card.images import Image, require_platform, require_stated_interface
from dradriver_fpga.card.real.card_locks import CardLock
from dradriver_fpga.card.real.cards import CardReader, read_manager
from dradriver_fpga.card.real.host import Command, FpgaHost
from dradriver_fpga.card.real.intel_driver import reconfigure_intel_port
from dradriver_fpga.card.real.mechanisms import Kernel, Tool, reconfigure_port, run_tool, write_firmware
from dradriver_fpga.card.real.overlays import program_by_overlay
from dradriver_fpga.card.real.records import ContentRecords
from dradriver_fpga.card.real.survey import CardParts, find_card_parts
from dradriver_fpga.card.real.uevents import Uevents
from dradriver_fpga.card.real.uninterruptible_write import UninterruptibleWrite
from dradriver_fpga.card.values import Bitstream, CardKind, FpgaCard, Manager, ManagerState, Mechanism, Region
from dradriver_fpga.card.verified_files import VerifiedFile

__all__ = ["RealFpgas"]

_log: Final = logging.getLogger(__name__)


_POLL_SECONDS: Final = 0.02
"""Seconds between two reads of a card that is being programmed."""


@dataclass(frozen=True, slots=True)
class _Target:
    """The target of programming: a region, or the whole card."""

    id: str
    card: FpgaCard
    region: Region | None
    parts: CardParts
    folder: Path

    @property
    def mechanism(self) -> Mechanism | None:
        return self.card.mechanism if self.region is None else self.region.mechanism

    @property
    def state(self) -> ManagerState:
        return self.card.managers[0].state if self.card.managers else ManagerState.UNKNOWN

    @property
    def afu_id(self) -> str:
        return "" if self.region is None else self.region.afu_id


class RealFpgas(FpgaHardware):
    """FPGAs of this node; see `FpgaHardware`.

    Args:
        host: paths and programs of the node.
        kernel: writes attributes of sysfs and makes ioctls; None: the real kernel of this node.
    """

    def __init__(self, host: FpgaHost, kernel: Kernel | None = None) -> None:
        self._host = host
        self._kernel = kernel or Kernel()
        self._records = ContentRecords(host.records, host.boot_id)
        self._persistent: list[UninterruptibleWrite] = []
        self._uevents: Uevents | FpgaNotSupportedError = FpgaNotSupportedError("the hardware is not open")

    def open(self) -> None:
        """See `FpgaHardware`."""
        try:
            self._uevents = Uevents(self._host.udev_control)
        except FpgaNotSupportedError as error:
            self._uevents = error  # raised by wait_change; the cards can still be read

    def close(self) -> None:
        """See `FpgaHardware`. Waits for programs that write shells: the end of this process may end them."""
        for writing in self._persistent:
            if not writing.has_ended:
                _log.warning("a vendor's program writes a shell: this process ends when the program has ended")
                writing.join()
        uevents, self._uevents = self._uevents, FpgaNotSupportedError("the hardware is closed")
        if isinstance(uevents, Uevents):
            uevents.close()

    def cards(self) -> tuple[FpgaCard, ...]:
        """See `FpgaHardware`."""
        reader = self._make_reader()
        cards = [
            (reader.card(name, parts), reader.folder(name, parts))
            for name, parts in sorted(find_card_parts(self._host.sysfs).items())
        ]
        # If a card is removed while it is read, it is left out, because its data may be incomplete.
        return tuple(card for card, folder in cards if folder.exists())

    def program(self, target: str, bitstream: Bitstream, *, timeout: float) -> None:
        """See `FpgaHardware`."""
        deadline = time.monotonic() + timeout
        target_found = self._find(target)
        if target_found.mechanism is None:
            raise FpgaNotSupportedError(f"{target}: this node cannot program it")
        lock = CardLock(self._host.private / f"{target_found.card.name}.lock", target)
        with ExitStack() as stack:
            stack.callback(lock.release)
            file = VerifiedFile(bitstream, self._host.largest, self._host.private / target_found.card.name)
            stack.callback(file.close)
            self._start_programming(target_found, bitstream, file.image)
            release = stack.pop_all().close
        # If the process dies from here on, the content of the target is unknown.
        write = partial(self._write, target_found, file, lock, timeout)
        writing = UninterruptibleWrite(write, release)
        if _is_persistent(target_found):
            self._persistent = [each for each in self._persistent if not each.has_ended] + [writing]
        self._wait_until_operating(target_found, writing, deadline)
        self._record_content(target_found, bitstream, file.image)

    def invalidate(self, card: str) -> None:
        """See `FpgaHardware`."""
        self._records.invalidate(self._find(card).card.id)

    def wait_change(self, timeout: float) -> bool:
        """See `FpgaHardware`."""
        if isinstance(self._uevents, FpgaNotSupportedError):
            raise self._uevents
        return self._uevents.wait(timeout)

    def _make_reader(self) -> CardReader:
        host = self._host
        shells = {kind for kind in CardKind if self._find_shell_tool(kind) is not None}
        return CardReader(
            host.sysfs,
            self._records.sha256,
            self._find_region_tool() is not None,
            shells,
            host.overlays.is_dir(),
        )

    def _find_shell_tool(self, kind: CardKind) -> Command | None:
        managers = self._host.manager_tools if kind is CardKind.MANAGER else ()
        commands = (self._host.shell_tools.get(kind, ()), *managers)
        return next((command for command in commands if _is_installed(command)), None)

    def _find_region_tool(self) -> Command | None:
        return next((command for command in self._host.region_tools if _is_installed(command)), None)

    def _find(self, target: str) -> _Target:
        reader = self._make_reader()
        for name, parts in find_card_parts(self._host.sysfs).items():
            if target != name and not target.startswith(f"{name}/"):
                continue
            card = reader.card(name, parts)
            region = card.region(target)
            if region is not None:
                return _Target(target, card, region, parts, reader.folder(name, parts, region.number))
            if target == name:
                return _Target(target, card, None, parts, reader.folder(name, parts))
        raise TargetNotFoundError(f"card or region {target} does not exist")

    def _start_programming(self, target: _Target, bitstream: Bitstream, image: Image) -> None:
        require_stated_interface(image, bitstream)  # a shell may have another interface than the card has now
        if target.region is not None:
            require_platform(image, bitstream, target.card.platform(target.region), target.id)
        if target.state.is_busy:
            raise BusyError(f"the manager of {target.id} is in state {target.state.value!r}")
        # If a card has no regions of its own, the card itself counts as its only region.
        has_own_region = target.parts.regions or target.parts.user
        self._records.invalidate(target.id if has_own_region else target.card.id)

    def _write(self, target: _Target, file: VerifiedFile, lock: CardLock, timeout: float) -> None:
        parts, host = target.parts, self._host
        match target.mechanism:
            case Mechanism.FIRMWARE:
                partial = target.region is not None and bool(parts.regions)
                write_firmware(self._kernel, parts.managers[0].path, host.firmware, file, partial=partial)
            case Mechanism.OVERLAY if target.region is not None:
                device = parts.regions[target.region.number]
                program_by_overlay(self._kernel, host.overlays, host.firmware, device, file)
            case Mechanism.DFL_PORT if target.region is not None:
                port = _find_port(target.region, parts)
                reconfigure_port(self._kernel, host.dev / parts.engines[0].name, port, file)
            case Mechanism.INTEL_PORT if target.region is not None:
                port = _find_port(target.region, parts)
                reconfigure_intel_port(self._kernel, host.dev / parts.engines[0].name, port, file)
            case _:
                is_user = target.card.kind is CardKind.XRT and target.region is not None
                command = self._find_region_tool() if is_user else self._find_shell_tool(target.card.kind)
                if command is None:
                    raise ToolFailedError(f"{target.id}: the vendor's program was uninstalled")
                function = parts.management if target.region is None else parts.user
                tool = Tool(
                    command,
                    card=function.name if function else target.card.id,
                    timeout=None if _is_persistent(target) else timeout,
                )
                run_tool(tool, file.path, lock)

    def _wait_until_operating(self, target: _Target, writing: UninterruptibleWrite, deadline: float) -> None:
        """Wait until the target operates."""
        uses_tool = target.mechanism is Mechanism.VENDOR_TOOL
        while True:
            has_ended = writing.wait(_POLL_SECONDS)
            # A vendor's program may remove the card from the bus for a while.
            if (has_ended or not uses_tool) and not target.folder.exists():
                raise CardGoneError(f"the card of {target.id} was removed while it was programmed")
            if isinstance(writing.error, CardGoneError):
                raise writing.error  # the card's manager still reports an error state and disappears only later
            manager = self._read_manager(target)
            if has_ended and manager is not None and manager.state.is_error:
                reason = writing.error or manager.status
                message = f"programming {target.id} ended in {manager.state.value!r}: {reason}".removesuffix(
                    ": "
                )
                raise ManagerFailedError(message, manager.state)
            if has_ended and writing.error is not None:
                raise writing.error
            if has_ended and (uses_tool or manager is None or manager.state is ManagerState.OPERATING):
                return
            if time.monotonic() >= deadline:
                if _is_persistent(target) and not has_ended:
                    raise BusyError(
                        f"the program that writes the shell of {target.id} still runs after the time limit; "
                        "it is not killed, because a part of a shell can make the card unusable"
                    )
                state = manager.state.value if manager is not None else "unknown"
                raise ProgrammingTimedOutError(
                    f"{target.id} did not operate in time, its manager is in state {state!r}"
                )

    def _read_manager(self, target: _Target) -> Manager | None:
        """Return the present state of the manager, or None if the target has no manager."""
        managers = target.parts.managers
        return read_manager(managers[0]) if managers else None

    def _record_content(self, target: _Target, bitstream: Bitstream, image: Image) -> None:
        """Record the content of the target.

        If the process dies before this call, the target is programmed again.

        Raises:
            CardGoneError: the card was removed.
            FpgaError: the AFU ID that the target reports differs from the AFU ID in the file.
        """
        try:
            target_found = self._find(target.id)
        except TargetNotFoundError as error:
            raise CardGoneError(f"the card of {target.id} was removed while it was programmed") from error
        if image.afu_id and target_found.afu_id and image.afu_id != target_found.afu_id:
            raise FpgaError(f"{target.id} has AFU ID {target_found.afu_id} after {image.afu_id} was written")
        self._records.record_content(
            target.id, bitstream.sha256.lower(), target_found.folder, target_found.afu_id
        )


def _is_persistent(target: _Target) -> bool:
    """Return whether programming writes memory that keeps its content without power: it must not be killed."""
    return target.region is None and target.card.keeps_shell


def _is_installed(command: Sequence[str]) -> bool:
    return bool(command) and shutil.which(command[0]) is not None


def _find_port(region: Region, parts: CardParts) -> int:
    """Return the number by which the engine identifies a region's port."""
    nodes = {node.path.rpartition("/")[2] for slot in region.slots for node in slot.nodes}
    for port in parts.ports:
        if port.name in nodes and port.attribute("id").isdecimal():
            return int(port.attribute("id"))
    raise FpgaNotSupportedError(f"{region.id} has no port that can be reconfigured")
