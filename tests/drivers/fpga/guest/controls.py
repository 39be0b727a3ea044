"""Controls of the FPGAs of `module/testfpga.c`, inside the guest."""

from pathlib import Path
from typing import Final

import pytest

from dradriver_fpga.card import FaultKind, ManagerState
from dradriver_fpga.card.simulator import CATALOG
from tests.drivers.fpga.kernel.cards import make_card_id

_MODULE: Final = Path("/sys/kernel/debug/testfpga")
_PHASES: Final = (
    ManagerState.FIRMWARE_REQUEST_ERROR,
    ManagerState.PARSE_HEADER_ERROR,
    ManagerState.WRITE_INIT_ERROR,
    ManagerState.WRITE_ERROR,
    ManagerState.WRITE_COMPLETE_ERROR,
)
MODEL: Final = "zynq"
_NOT_HERE: Final = {
    "DFL": "the kernel's DFL drivers take a PCI card with DFL's registers, which QEMU has not",
    "XRT": "XRT's drivers are not part of the kernel, and take a card of AMD's",
    "VFIO": "QEMU has no card of the Open FPGA Stack",
}


class GuestControls:
    """Changes of cards of `MODEL`."""

    def __init__(self) -> None:
        self._plugged: list[str] = []
        self._known: list[str] = []

    def plug(self, model: str) -> str:
        if model != MODEL:
            pytest.skip(_NOT_HERE[CATALOG[model].kind])
        card = make_card_id(CATALOG[model], len(self._known))
        self._known.append(card)
        self.replug(card)
        return card

    def replug(self, card: str) -> None:
        self._send("plug", str(self._known.index(card)))
        self._plugged.append(card)

    def unplug(self, card: str) -> None:
        self._send("unplug", str(self._known.index(card)))
        self._plugged.remove(card)

    def unplug_all(self) -> None:
        for card in tuple(self._plugged):
            self.unplug(card)

    def fail_next(self, target: str, state: ManagerState) -> None:
        self._send(f"{_device(target)}/fail_at", str(_PHASES.index(state) + 1))

    def hang_next(self, target: str) -> None:
        self._send(f"{_device(target)}/hang", "Y")

    def release(self, target: str) -> None:
        self._send(f"{_device(target)}/hang", "N")

    def silence_logic(self, region: str) -> None:
        raise NotImplementedError("this model's logic has no ID")

    def report_fault(self, target: str, kind: FaultKind) -> None:
        raise NotImplementedError("this model has no error registers")

    def clear_faults(self, card: str) -> None:
        raise NotImplementedError("this model has no error registers")

    def written(self, card: str) -> bytes:
        """What the last programming wrote."""
        return (_MODULE / _device(card) / "written").read_bytes()

    def was_partial(self, card: str) -> bool:
        """Whether the manager got the flag for partial programming."""
        return (_MODULE / _device(card) / "partial").read_text() == "Y\n"

    def _send(self, file: str, word: str) -> None:
        (_MODULE / file).write_text(word)


def _device(target: str) -> str:
    return target.split("/")[1]
