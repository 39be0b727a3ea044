"""Opaque parameters of claims and device classes."""

from typing import Final, Literal

import dradriver as dra
from dradriver_fabric_cxl.memory import MemoryMode

__all__ = ["DeviceKind", "FabricClass", "MemoryAmount", "MemoryConfig", "parse_mebibytes"]

_MEBIBYTE: Final = 1 << 20

DeviceKind = Literal["memory", "accelerator"]
"""What a device of the fabric is."""


class MemoryConfig(dra.Config):
    """Configuration of memory. It has no effect on an accelerator.

    Attributes:
        mode: how the memory is used. `devdax`: as a character device that programs map. `system-ram`: as memory
            of the node, which every process of the node can get. The node's settings must allow `system-ram`.
    """

    api_version = "cxl.example.com/v1"
    kind = "MemoryConfig"
    mode: str = MemoryMode.DEVDAX.value

    def __post_init__(self) -> None:
        modes = [mode.value for mode in MemoryMode]
        if self.mode not in modes:
            raise ValueError(f"mode must be {' or '.join(modes)}, not {self.mode!r}")

    @property
    def memory_mode(self) -> MemoryMode:
        """How the memory is used."""
        return MemoryMode(self.mode)


class FabricClass(dra.Config):
    """Parameters of a DeviceClass whose devices the controller hands out (`ControllerClass.parameters`).

    Attributes:
        type: what a request of the class gets.
    """

    api_version = "cxl.example.com/v1"
    kind = "FabricClass"
    type: DeviceKind = "memory"


class MemoryAmount(dra.Config):
    """Parameters of a claim for memory that the controller hands out (`ControllerClaim.parameters`).

    Attributes:
        size: size of each device as a Kubernetes quantity: `1Gi`. It is rounded up to one that the manager can
            make.
    """

    api_version = "cxl.example.com/v1"
    kind = "MemoryAmount"
    size: str

    def __post_init__(self) -> None:
        try:
            parse_mebibytes(self.size)
        except ValueError as error:
            raise ValueError(f"size: {error}") from error

    @property
    def mebibytes(self) -> int:
        """The size in mebibytes."""
        return parse_mebibytes(self.size)


def parse_mebibytes(text: str) -> int:
    """Return a size in mebibytes.

    Args:
        text: a Kubernetes quantity.

    Raises:
        ValueError: the text is no quantity, or the size is not a positive multiple of 1Mi.
    """
    size, rest = divmod(dra.Quantity(text).nano, _MEBIBYTE * 10**9)
    if rest or size <= 0:
        raise ValueError(f"{text} must be a positive multiple of 1Mi")
    return size
