"""The cards that can be simulated, from `cards.toml`."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Final, Literal

import msgspec

__all__ = ["CATALOG", "CardModel", "Shell"]


class Shell(msgspec.Struct, frozen=True):
    """A shell of a card: its name, and the interface of the regions under it."""

    name: str
    interface_id: str


class CardModel(msgspec.Struct, frozen=True, kw_only=True):
    """A card that can be simulated. The head of `cards.toml` explains the fields."""

    kind: Literal["DFL", "MANAGER", "XRT"]
    manager: str
    vendor: str
    device: str
    place: int | str
    regions: int
    slots: int
    largest: int
    rate: int
    afu: str
    mechanism: Literal["FIRMWARE", "DFL_PORT", "VENDOR_TOOL"]
    shell_mechanism: Literal["FIRMWARE", "VENDOR_TOOL"]
    shells: list[Shell]

    def shell_of(self, interface_id: str) -> Shell | None:
        """Return the shell with an interface, or None."""
        return next((shell for shell in self.shells if shell.interface_id == interface_id), None)


CATALOG: Final[Mapping[str, CardModel]] = msgspec.convert(
    tomllib.loads(files(__package__).joinpath("cards.toml").read_text()), dict[str, CardModel]
)
"""All cards by their short name, for example `pac`."""
