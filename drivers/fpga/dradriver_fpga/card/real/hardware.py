"""`Hardware` for the cards of this node."""

import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from dradriver_fpga.card.errors import (
    BusyError,
    CardError,
    CardGoneError,
    ManagerFailedError,
    NotSupportedError,
    ProgrammingTimedOutError,
    TargetNotFoundError,
)
from dradriver_fpga.card.images import Image, load_image, require_interface
from dradriver_fpga.card.real.cards import Reader, read_manager
from dradriver_fpga.card.real.host import Host
from dradriver_fpga.card.real.kernel import Kernel
from dradriver_fpga.card.real.mechanisms import reconfigure_port, run_tool, write_firmware
from dradriver_fpga.card.real.records import Records
from dradriver_fpga.card.real.survey import Parts, survey
from dradriver_fpga.card.real.uevents import Uevents
from dradriver_fpga.card.real.uninterruptible_write import UninterruptibleWrite
from dradriver_fpga.card.values import Bitstream, Card, Manager, ManagerState, Mechanism, Region

__all__ = ["RealHardware"]

_LOOK: Final = 0.02
"""Seconds between two reads of a card that is being programmed."""


@dataclass(frozen=True, slots=True)
class _Target:
    """The target of programming: a region, or the whole card."""

    id: str
    card: Card
    region: Region | None
    parts: Parts
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


class RealHardware:
    """FPGAs of this node; see `Hardware`.

    Args:
        host: paths and programs of the node.
        kernel: makes changes; None: the kernel of this node.
    """

    def __init__(self, host: Host, kernel: Kernel | None = None) -> None:
        self._host = host
        self._kernel = kernel or Kernel()
        self._records = Records(host.records, host.boot_id)
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._uevents: Uevents | NotSupportedError = NotSupportedError("the hardware was not opened")

    def open(self) -> None:
        """See `Hardware`."""
        try:
            self._uevents = Uevents(self._host.udev_control)
        except NotSupportedError as error:
            self._uevents = error  # raised by wait_change; the cards can be read nevertheless

    def close(self) -> None:
        """See `Hardware`."""
        uevents, self._uevents = self._uevents, NotSupportedError("the hardware was closed")
        if isinstance(uevents, Uevents):
            uevents.close()

    def cards(self) -> tuple[Card, ...]:
        """See `Hardware`."""
        reader = self._reader()
        found = [
            (reader.card(name, parts), reader.folder(name, parts))
            for name, parts in sorted(survey(self._host.sysfs).items())
        ]
        # A card that is removed while it is read is left out, because its data may be incomplete.
        return tuple(card for card, folder in found if folder.exists())

    def program(self, target: str, bitstream: Bitstream, *, timeout: float) -> None:
        """See `Hardware`."""
        end = time.monotonic() + timeout
        found = self._find(target)
        if found.mechanism is None:
            raise NotSupportedError(f"{target}: this node has no way to program it")
        image = load_image(bitstream, self._host.largest)
        if found.region is not None:
            require_interface(image, bitstream, found.region.interface_id, target)
        lock = self._locks[found.card.id]
        if not lock.acquire(blocking=False):
            raise BusyError(f"the card of {target} is being programmed")
        try:
            self._begin(found)
        except BaseException:
            lock.release()
            raise
        # If the process dies from here on, the content of the target is unknown.
        write = partial(self._write, found, bitstream, image, timeout)
        self._follow(found, UninterruptibleWrite(write, lock.release), end)
        self._confirm(found, bitstream, image)

    def forget(self, card: str) -> None:
        """See `Hardware`."""
        self._records.forget(self._find(card).card.id)

    def wait_change(self, timeout: float) -> bool:
        """See `Hardware`."""
        if isinstance(self._uevents, NotSupportedError):
            raise self._uevents
        return self._uevents.wait(timeout)

    def _reader(self) -> Reader:
        host = self._host
        shells = {kind for kind, command in host.shell_tools.items() if _is_installed(command)}
        return Reader(host.sysfs, self._records.sha256, _is_installed(host.region_tool), shells)

    def _find(self, target: str) -> _Target:
        reader = self._reader()
        for name, parts in survey(self._host.sysfs).items():
            if target != name and not target.startswith(f"{name}/"):
                continue
            card = reader.card(name, parts)
            region = card.region(target)
            if region is not None:
                return _Target(target, card, region, parts, reader.folder(name, parts, region.number))
            if target == name:
                return _Target(target, card, None, parts, reader.folder(name, parts))
        raise TargetNotFoundError(f"there is no card or region {target}")

    def _begin(self, target: _Target) -> None:
        if target.state.is_busy:
            raise BusyError(f"the manager of {target.id} is in state {target.state.value!r}")
        # A card without regions of its own counts as its only region.
        of_its_own = target.parts.regions or target.parts.user
        self._records.forget(target.id if of_its_own else target.card.id)

    def _write(self, target: _Target, bitstream: Bitstream, image: Image, timeout: float) -> None:
        parts, host = target.parts, self._host
        match target.mechanism:
            case Mechanism.FIRMWARE:
                partly = target.region is not None and bool(parts.regions)
                write_firmware(self._kernel, parts.managers[0].path, host.firmware, image.bits, partial=partly)
            case Mechanism.DFL_PORT if target.region is not None:
                port = _port(target.region, parts)
                reconfigure_port(self._kernel, host.dev / parts.engines[0].name, port, image.bits)
            case _:
                command = host.shell_tools[target.card.kind] if target.region is None else host.region_tool
                function = parts.management if target.region is None else parts.user
                run_tool(command, function.name if function else target.card.id, bitstream.path, timeout)

    def _follow(self, target: _Target, writing: UninterruptibleWrite, end: float) -> None:
        """Wait until the target operates."""
        by_tool = target.mechanism is Mechanism.VENDOR_TOOL
        while True:
            ended = writing.ended(_LOOK)
            # A vendor's program may remove the card from the bus for a while.
            if (ended or not by_tool) and not target.folder.exists():
                raise CardGoneError(f"the card of {target.id} went while it was programmed")
            if isinstance(writing.error, CardGoneError):
                raise writing.error  # its manager still reports an error state and disappears only later
            manager = self._manager(target)
            if ended and manager is not None and manager.state.is_error:
                why = writing.error or manager.status
                message = f"programming {target.id} ended in {manager.state.value!r}: {why}".removesuffix(": ")
                raise ManagerFailedError(message, manager.state)
            if ended and writing.error is not None:
                raise writing.error
            if ended and (by_tool or manager is None or manager.state is ManagerState.OPERATING):
                return
            if time.monotonic() >= end:
                state = manager.state.value if manager is not None else "unknown"
                raise ProgrammingTimedOutError(
                    f"{target.id} did not operate in time, its manager is at {state!r}"
                )

    def _manager(self, target: _Target) -> Manager | None:
        """Return the present state of the manager, or None without a manager."""
        managers = target.parts.managers
        return read_manager(managers[0]) if managers else None

    def _confirm(self, target: _Target, bitstream: Bitstream, image: Image) -> None:
        """Record the content of the target.

        If the process dies before, the target is programmed once again.

        Raises:
            CardGoneError: the card was removed.
            CardError: the target reports another AFU ID than the file's.
        """
        try:
            found = self._find(target.id)
        except TargetNotFoundError as error:
            raise CardGoneError(f"the card of {target.id} went when it was programmed") from error
        if image.afu_id and found.afu_id and image.afu_id != found.afu_id:
            raise CardError(f"{target.id} holds {found.afu_id} after {image.afu_id} was written to it")
        self._records.remember(target.id, bitstream.sha256.lower(), found.folder, found.afu_id)


def _is_installed(command: Sequence[str]) -> bool:
    return bool(command) and shutil.which(command[0]) is not None


def _port(region: Region, parts: Parts) -> int:
    """Return the number of a region's port for the engine."""
    nodes = {node.path.rpartition("/")[2] for slot in region.slots for node in slot.nodes}
    for port in parts.ports:
        if port.name in nodes and port.attribute("id").isdecimal():
            return int(port.attribute("id"))
    raise NotSupportedError(f"{region.id} has no port that could be reconfigured")
