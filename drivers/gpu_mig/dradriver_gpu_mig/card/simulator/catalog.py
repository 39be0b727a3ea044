"""The cards that can be simulated, from `cards.toml`."""

import tomllib
from collections.abc import Mapping
from functools import cached_property
from importlib.resources import files
from typing import Final

import msgspec

from dradriver_gpu_mig.card.values import Engines, Placement, Profile

__all__ = ["CATALOG", "GpuModel", "ModelProfile"]

MIB: Final = 1 << 20


class ModelProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One profile of a card.

    The comment at the top of `cards.toml` explains the fields that `Profile` does not have.
    """

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
    max_instances: int
    size: int
    starts: list[int]

    def to_profile(self) -> Profile:
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
            max_instances=self.max_instances,
            placements=tuple(Placement(start, self.size) for start in self.starts),
        )


class GpuModel(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A card that can be simulated. `source` says where the values are from."""

    source: str
    name: str
    brand: str
    architecture: str
    compute_capability: tuple[int, int]
    pci_device: int
    memory: int
    compute_slices: int
    memory_slices: int
    mig_needs_reset: bool
    profiles: list[ModelProfile]

    @cached_property
    def profiles_by_id(self) -> Mapping[int, ModelProfile]:
        """The card's profiles by profile ID."""
        return {to_profile.id: to_profile for to_profile in self.profiles}


def _read_catalog() -> dict[str, GpuModel]:
    text = files(__package__).joinpath("cards.toml").read_text()
    return msgspec.convert(tomllib.loads(text), dict[str, GpuModel])


CATALOG: Final[Mapping[str, GpuModel]] = _read_catalog()
"""All cards by their short name, for example `a100-40`."""
