"""Plugs and pulls simulated cards of a node in demonstrations."""

from pathlib import Path

from dradriver_fpga.card.names import card_name
from dradriver_fpga.card.simulator import FileStore, SimulatedHardware
from dradriver_fpga.factory import SIMULATED

__all__ = ["CardHotplug"]


class CardHotplug:
    """Changes the simulated hardware of a driver that runs in another process. Blocking.

    Args:
        folder: folder of the driver.
    """

    def __init__(self, folder: Path) -> None:
        self._cards = SimulatedHardware((), store=FileStore(folder / SIMULATED))

    def plug(self) -> str:
        """Plug in one more card and return the name of its device."""
        return card_name(self._cards.plug("pac"))

    def pull(self, device: str) -> str:
        """Pull the card of a device and return the name of the card's device.

        Raises:
            LookupError: no card has such a device.
        """
        for card in self._cards.cards():
            if device == card.name or device.startswith(f"{card.name}-"):
                self._cards.unplug(card.id)
                return card.name
        raise LookupError(device)
