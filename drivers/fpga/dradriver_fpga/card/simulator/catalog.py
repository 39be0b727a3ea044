"""The cards that can be simulated, from `cards.toml`."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Final, Literal

import msgspec

__all__ = ["CATALOG", "FpgaModel", "Shell"]


class Shell(msgspec.Struct, frozen=True):
    """A shell of a card: its name, and the interfaces of the regions that it provides."""

    name: str
    interface_id: str
    other_interface_ids: tuple[str, ...] = ()
    timestamp: int = 0


class FpgaModel(msgspec.Struct, frozen=True, kw_only=True):
    """A card that can be simulated. The comment at the top of `cards.toml` explains the fields."""

    kind: Literal["DFL", "MANAGER", "XRT", "VFIO"]
    manager: str
    vendor: str
    device: str
    location: int | str
    regions: int
    slots: int
    max_bytes: int
    rate: int
    afu: str
    mechanism: Literal["FIRMWARE", "DFL_PORT", "VENDOR_TOOL"] | None = None
    shell_mechanism: Literal["FIRMWARE", "VENDOR_TOOL"] | None = None
    shells: list[Shell]
    serial: str = ""

    @property
    def function(self) -> int:
        """Number of the PCI function by which the card is known."""
        return int(self.kind in {"XRT", "VFIO"})

    def find_shell(self, interface_id: str) -> Shell | None:
        """Return the shell with this interface, or None.

        Args:
            interface_id: ID of the interface, 32 hex digits.
        """
        return next((shell for shell in self.shells if shell.interface_id == interface_id), None)


CATALOG: Final[Mapping[str, FpgaModel]] = msgspec.convert(
    tomllib.loads(files(__package__).joinpath("cards.toml").read_text()), dict[str, FpgaModel]
)
"""All cards by their short name, for example `pac`."""
