"""A kernel that programs the cards of a `Tree`, with controls of the cards."""

import ctypes
import errno
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dradriver_fpga.card import BLANK_ID, CardKind, FaultKind, ManagerState
from dradriver_fpga.card.real import FpgaHost
from dradriver_fpga.card.real.mechanisms import Kernel, PortReconfiguration
from dradriver_fpga.card.simulator import CATALOG, FpgaModel
from tests.drivers.fpga.kernel.cards import FAULTS, add_card, find_home, make_card_id
from tests.drivers.fpga.kernel.tree import Tree

SendUevent = Callable[[str, str, str], None]
"""Tells of an action, a device's path below /sys and its subsystem, as the kernel does."""

PHASES = ("firmware request", "parse header", "write init", "write", "write complete")


def discard_uevent(action: str, device: str, subsystem: str) -> None:
    """Sends nothing."""


@dataclass
class Plugged:
    model: str
    order: int

    @property
    def facts(self) -> FpgaModel:
        return CATALOG[self.model]


class FakeKernel(Kernel):
    """Cards of the catalog below a folder.

    Args:
        root: the folder of `sys`, of the firmware and of the vendor's programs.
        tell: what is done with uevents.
    """

    def __init__(self, root: Path, send: SendUevent = discard_uevent) -> None:
        self.root = root
        self.tree = Tree(root / "sys")
        self._send = send
        self._cards: dict[str, Plugged] = {}
        self._faults: dict[str, ManagerState | None] = {}
        self._released = threading.Event()
        (root / "firmware").mkdir(parents=True, exist_ok=True)
        (root / "boot_id").write_text("first")
        self._write_tools()

    @property
    def host(self) -> FpgaHost:
        return FpgaHost(
            records=self.root / "records.json",
            sysfs=self.tree.sysfs,
            dev=self.root / "dev",
            boot_id=self.root / "boot_id",
            udev_control=self.root / "no-udevd",
            firmware=self.root / "firmware",
            region_tools=((str(self.root / "xbutil"), "{card}", "{file}"),),
            shell_tools={CardKind.XRT: (str(self.root / "xbmgmt"), "{card}", "{file}")},
            largest=1 << 20,
        )

    def plug(self, model: str) -> str:
        number = sum(card.model == model for card in self._cards.values())
        card = make_card_id(CATALOG[model], number)
        self._cards[card] = Plugged(model, len(self._cards))
        self.replug(card)
        return card

    def replug(self, card: str) -> None:
        before = set(self.tree.made)
        add_card(self.tree, self._cards[card].facts, card, self._cards[card].order)
        for device, subsystem in self.tree.made.items():
            if device not in before:
                self._send("add", f"devices/{device}", subsystem)

    def unplug(self, card: str) -> None:
        homes = [find_home(card)]
        if self._cards[card].facts.kind == "XRT":
            homes.append(find_home(f"{card[:-1]}0"))
        for home in homes:
            # As in the kernel, a removed device exists for a moment after its uevent.
            for device, subsystem in self.tree.below(home).items():
                self._send("remove", f"devices/{device}", subsystem)
            self.tree.remove(home)
        self._released.set()  # what hangs finds its card gone

    def fail_next(self, target: str, state: ManagerState) -> None:
        self._faults[target] = state

    def hang_next(self, target: str) -> None:
        self._released.clear()
        self._faults[target] = None

    def release(self, target: str) -> None:
        self._released.set()

    def silence_logic(self, region: str) -> None:
        card, _, number = region.rpartition("/")
        port = self._find("dfl-port", 16 * self._cards[card].order + int(number))
        self.tree.write(port, "afu_id", BLANK_ID)

    def report_fault(self, target: str, kind: FaultKind) -> None:
        self._write_fault(target, kind, 2)

    def clear_faults(self, card: str) -> None:
        for kind in FaultKind:
            if (self._cards[card].facts.kind, kind) in FAULTS:
                for region in range(self._cards[card].facts.regions):
                    self._write_fault(f"{card}/{region}", kind, 3)

    def _write_fault(self, target: str, kind: FaultKind, column: int) -> None:
        card, _, region = target.partition("/") if target[4] == ":" else (target, "", "")
        plugged = self._cards[card]
        row = FAULTS[plugged.facts.kind, kind]
        name = row[0].format(card=card, order=plugged.order, port=16 * plugged.order + int(region or 0))
        device = next(each for each in self.tree.made if each.endswith(f"/{name}"))
        self.tree.write(device, row[1], row[column])

    def write(self, attribute: Path, text: str) -> None:
        device = str(attribute.parent.relative_to(self.host.sysfs.resolve() / "devices"))
        self.tree.write(device, attribute.name, text)
        if attribute.name == "firmware":
            card = next(card for card in self._cards if device.startswith(f"{find_home(card)}/"))
            assert (self.root / "firmware" / text).is_file()
            self._load(device, (f"{card}/0", card), lambda _: None)

    def ioctl(self, node: Path, request: int, argument: ctypes.Structure) -> None:
        assert isinstance(argument, PortReconfiguration)
        assert (request, argument.argsz, argument.flags) == (0xB680, 24, 0)
        order = int(node.name.partition(".")[2])
        card = next(card for card, plugged in self._cards.items() if plugged.order == order)
        afu = ctypes.string_at(argument.buffer_address, min(16, argument.buffer_size)).hex()
        port = self._find("dfl-port", 16 * order + argument.port_id)
        self._load(
            f"{self._find('dfl-fme-mgr', order)}/fpga_manager/fpga{order}",
            (f"{card}/{argument.port_id}",),
            lambda afu_id: self.tree.write(port, "afu_id", afu_id or afu),
        )

    def _load(self, manager: str, targets: tuple[str, ...], hold: Callable[[str], None]) -> None:
        fault = next(
            (self._faults.pop(each) for each in targets if each in self._faults), ManagerState.OPERATING
        )
        try:
            for phase in PHASES:
                self.tree.write(manager, "state", phase)
                if fault is None and phase == "write":
                    self._released.wait()
                if fault is not None and fault.value == f"{phase} error":
                    if phase.startswith("write") and phase != "write init":
                        hold(BLANK_ID)
                    self.tree.write(manager, "state", fault.value)
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
            hold("")
            self.tree.write(manager, "state", "operating")
        except FileNotFoundError as error:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV)) from error

    def _find(self, name: str, number: int) -> str:
        return next(each for each in self.tree.made if each.endswith(f"/{name}.{number}"))

    def _write_tools(self) -> None:
        """The vendor's programs: what they find in the file, they write to the function."""
        devices = f"{self.tree.sysfs}/bus/pci/devices"
        read = 'uuid() { od -An -v -tx1 -j"$1" -N16 "$2" | tr -d " \\n"; }'
        fail = (
            f'if [ -e {self.root}/refuse ]; then rm {self.root}/refuse; echo "ERROR: refused" >&2; exit 7; fi'
        )
        region = f'uuid 416 "$2" > {devices}/$1/xclbinuuid'
        user = f"user={devices}/${{1%0}}1"
        shell = (
            f'{user}; uuid 336 "$2" > $user/interface_uuids; uuid 416 "$2" > $user/xclbinuuid; '
            "dd if=\"$2\" bs=1 skip=352 count=64 2>/dev/null | tr -d '\\0' > $user/rom.u.1/VBNV"
        )
        for name, action in (("xbutil", region), ("xbmgmt", shell)):
            file = self.root / name
            file.write_text(f"#!/bin/sh\n{read}\n{fail}\n{action}\n")
            file.chmod(0o755)

    def fail_next_tool(self) -> None:
        """The next run of a vendor's program ends with an error."""
        (self.root / "refuse").touch()
