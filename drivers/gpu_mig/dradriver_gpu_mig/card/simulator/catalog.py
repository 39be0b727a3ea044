"""The cards that can be simulated, from `cards.toml`."""

import tomllib
from collections.abc import Mapping
from functools import cached_property
from importlib.resources import files
from typing import Final

import msgspec

from dradriver_gpu_mig.card.values import Engines, Placement, Profile

__all__ = ["CATALOG", "CardModel", "CardProfile"]

MIB: Final = 1 << 20


class CardProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One profile of a card. The head of `cards.toml` explains the fields that `Profile` does not have."""

    slot: int
    id: int
    name: str
    memory: int
    slices: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    encoders: int
    jpeg_engines: int
    ofa_engines: int
    most: int
    size: int
    starts: list[int]

    def profile(self) -> Profile:
        """Return the profile as hardware reports it."""
        return Profile(
            id=self.id,
            name=self.name,
            memory=self.memory * MIB,
            slices=self.slices,
            engines=Engines(
                self.multiprocessors,
                self.copy_engines,
                self.decoders,
                self.encoders,
                self.jpeg_engines,
                self.ofa_engines,
            ),
            max_instances=self.most,
            placements=tuple(Placement(start, self.size) for start in self.starts),
        )


class CardModel(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A card that can be simulated."""

    name: str
    brand: str
    architecture: str
    compute_capability: tuple[int, int]
    pci_device: int
    memory: int
    compute_slices: int
    memory_slices: int
    reset: bool
    profiles: list[CardProfile]

    @cached_property
    def by_id(self) -> Mapping[int, CardProfile]:
        """The card's profiles by profile ID."""
        return {profile.id: profile for profile in self.profiles}


def _read() -> dict[str, CardModel]:
    text = files(__package__).joinpath("cards.toml").read_text()
    return msgspec.convert(tomllib.loads(text), dict[str, CardModel])


CATALOG: Final[Mapping[str, CardModel]] = _read()
"""All cards by their short name, for example `a100-40`."""
