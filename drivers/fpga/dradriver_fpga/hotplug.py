"""Plugs and pulls simulated cards of a node in demonstrations."""

from pathlib import Path

from dradriver_fpga.card.simulator import FpgaFileStore, SimulatedFpgas
from dradriver_fpga.card.values import make_card_name
from dradriver_fpga.factory import SIMULATED_STATE

__all__ = ["CardHotplug"]


class CardHotplug:
    """Plugs in and pulls the simulated cards of a driver that runs in another process. Blocking.

    Args:
        folder: folder of the driver.
    """

    def __init__(self, folder: Path) -> None:
        self._cards = SimulatedFpgas((), store=FpgaFileStore(folder / SIMULATED_STATE))

    def plug(self) -> str:
        """Plug in one more card and return the device name of the card."""
        return make_card_name(self._cards.plug("pac"))

    def pull(self, device: str) -> str:
        """Pull the card that contains a device, and return the device name of the card.

        Raises:
            LookupError: no card has a device with this name.
        """
        for card in self._cards.cards():
            if device == card.name or device.startswith(f"{card.name}-"):
                self._cards.unplug(card.id)
                return card.name
        raise LookupError(device)
