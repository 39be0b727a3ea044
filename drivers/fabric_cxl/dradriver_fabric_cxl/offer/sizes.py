"""Sizes of memory that a domain offers, in mebibytes."""

from collections.abc import Collection, Sequence
from typing import Final

from dradriver_fabric_cxl.fabric import MemoryDomain

__all__ = ["compute_available", "list_sizes", "round_up"]

_DEFAULT_SIZES: Final = 4


def compute_available(domain: MemoryDomain, pool: str, devices: Collection[str]) -> int:
    """Return the size of a domain less the chunks that the scheduler does not subtract.

    Chunks of the pool's devices count as available, because the scheduler subtracts what claims hold. Chunks of
    others do not, nor do chunks that were attached with other settings.

    Args:
        domain: the domain.
        pool: name of the pool.
        devices: names of the pool's devices.
    """
    others = (
        each.mebibytes
        for each in domain.chunks
        if each.identity is None or each.identity.pool != pool or each.identity.device not in devices
    )
    return max(0, domain.mebibytes - sum(others))


def list_sizes(domain: MemoryDomain, wanted: Sequence[int]) -> list[int]:
    """Return the sizes of chunks that a domain offers, smallest first.

    Each size is rounded up to one that the manager can make. Sizes that the domain does not have are left out.

    Args:
        domain: the domain.
        wanted: sizes of the settings; empty: the domain's minimum, and three times the double.
    """
    sizes = wanted or [domain.minimum << power for power in range(_DEFAULT_SIZES)]
    return sorted({size for each in sizes if (size := round_up(domain, each)) <= domain.mebibytes})


def round_up(domain: MemoryDomain, size: int) -> int:
    """Return the smallest size that the manager can make and that is not below `size`.

    Args:
        domain: the domain.
        size: size.
    """
    return -(-max(size, domain.minimum) // domain.increment) * domain.increment
