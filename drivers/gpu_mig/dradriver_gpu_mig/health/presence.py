"""Decides which GPUs are lost. Pure.

A GPU is lost when NVML reports it as lost (`GPU_IS_LOST`) or does not find it (`NOT_FOUND`) in two looks in a
row. Pods on a lost GPU are evicted, so no other error counts: NVML answers many calls with transient errors.

| result of this look | never lost | lost once | lost |
|---|---|---|---|
| it answers | - | never lost | never lost |
| lost | lost once | lost | - |
| another error | - | never lost | - |
"""

from collections.abc import Mapping
from typing import Final

from dradriver_gpu_mig.card import CardError, GpuLostError, GpuNotFoundError
from dradriver_gpu_mig.snapshot import Survey

__all__ = ["LOOKS", "count_losses", "says_lost"]

LOOKS: Final = 2
"""Number of consecutive looks that must find a GPU lost."""


def says_lost(error: CardError) -> bool:
    """Return whether an error means that the GPU is no longer there."""
    return isinstance(error, GpuLostError | GpuNotFoundError)


def count_losses(before: Mapping[str, int], survey: Survey) -> dict[str, int]:
    """Return how many consecutive looks found each lost GPU lost, at most `LOOKS`. Other GPUs have no entry.

    Args:
        before: the counts after the last look, by UUID.
        survey: the result of this look.
    """
    counts: dict[str, int] = {}
    for uuid, error in survey.refusals.items():
        count = before.get(uuid, 0)
        if says_lost(error):
            counts[uuid] = min(count + 1, LOOKS)
        elif count == LOOKS:
            counts[uuid] = count
    return counts
