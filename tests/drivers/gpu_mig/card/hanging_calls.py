"""The time limit of a call passes when the call hangs, and never because the machine is slow."""

import asyncio
from collections.abc import Callable

import pytest

from dradriver_gpu_mig.card.lane import Lane

__all__ = ["let_limits_pass"]

_POLL_SECONDS = 0.002


def let_limits_pass(patch: pytest.MonkeyPatch, is_hanging: Callable[[str], bool]) -> None:
    """Let the limits of lanes begin when a call hangs.

    Args:
        patch: reverts it.
        is_hanging: returns whether a call hangs in the lane with this name, and is not released yet.
    """
    wait = Lane._wait

    async def wait_for_hang(lane: Lane, running: asyncio.Future[None], what: str) -> None:
        while not (running.done() or is_hanging(lane.name)):
            await asyncio.sleep(_POLL_SECONDS)
        await wait(lane, running, what)

    patch.setattr(Lane, "_wait", wait_for_hang)
