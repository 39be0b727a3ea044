"""Which GPUs are lost. Pure.

A GPU is lost when NVML says so (`GPU_IS_LOST`), or does not know it any more (`NOT_FOUND`), in two looks in a
row. A lost GPU evicts its pods, so no other error counts: NVML answers many calls with errors that pass.

| seen this time | never lost | lost once | lost |
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
"""How many looks in a row must find a GPU lost."""


def says_lost(error: CardError) -> bool:
    """Whether an answer says that the GPU is not there any more."""
    return isinstance(error, GpuLostError | GpuNotFoundError)


def count_losses(before: Mapping[str, int], survey: Survey) -> dict[str, int]:
    """How many looks in a row found a GPU lost, at most `LOOKS`; GPUs that are not lost are not in it.

    Args:
        before: the same after the last look.
        survey: this look.
    """
    counts: dict[str, int] = {}
    for uuid, error in survey.refusals.items():
        count = before.get(uuid, 0)
        if says_lost(error):
            counts[uuid] = min(count + 1, LOOKS)
        elif count == LOOKS:
            counts[uuid] = count
    return counts
