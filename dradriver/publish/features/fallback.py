"""Choose the pool to publish while the server drops fields that it needs: the fallback or the safe part."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from dradriver.model.resource.pool import Pool
from dradriver.publish.context import PublishContext
from dradriver.publish.features.dropped_fields import DroppedField, fields_of, safe_part, unsafe
from dradriver.publish.layout import refusals
from dradriver.publish.status import PoolDecision, PoolState

__all__ = ["FallbackChooser"]

_log = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 1.0
"""Maximum wait for the driver's answer if nothing of the pool is published yet; other pools do not wait."""
_CANCEL_SECONDS: Final = 1.0
"""Time for the driver to clean up when its answer is no longer wanted."""


def _untainted(
    wanted: Pool, unknown: frozenset[DroppedField], message: str, dropped: frozenset[DroppedField]
) -> PoolDecision:
    """Keep the wanted layout: publish all of it except for devices whose taints are dropped."""
    safe = safe_part(wanted, unknown)
    if safe is not None and len(safe.devices) == len(wanted.devices):
        return PoolDecision(PoolState.PUBLISHED, safe, message, dropped)
    message += "; devices that taints keep claims away from are withdrawn"
    return PoolDecision(PoolState.UNSAFE_WITHDRAWN, safe, message, dropped)


class FallbackChooser:
    """Decides for one pool; asks the driver at most once for the same pool and the same dropped fields."""

    def __init__(self, name: str, context: PublishContext, wake: Callable[[], None]) -> None:
        self._name = name
        self._context = context
        self._wake = wake
        self._question: tuple[Pool, frozenset[DroppedField]] | None = None
        self._answer: asyncio.Future[Sequence[Pool] | None] | None = None

    async def close(self) -> None:
        """Cancel the call of the driver; returns when it has ended, or after a second."""
        answer, self._answer = self._answer, None
        if answer is None:
            return
        answer.cancel()
        await asyncio.wait({answer}, timeout=_CANCEL_SECONDS)
        if not answer.done():
            _log.error("pool %s: the driver's fallback goes on although it was cancelled", self._name)

    async def choose(self, wanted: Pool) -> PoolDecision:
        """Decide what to publish now; a late answer of the driver wakes the pool."""
        features = self._context.features
        dropped = fields_of(wanted) & features.dropped
        if not dropped:
            return PoolDecision(PoolState.PUBLISHED, wanted)
        message = f"the API server drops {', '.join(map(str, sorted(dropped)))}"
        if features.words:
            message += f": {features.words}"
        guarding = unsafe(dropped)
        if not guarding:
            return _untainted(wanted, features.dropped, message, dropped)
        answer = await self._ask(wanted, guarding)
        if not answer.done():
            message += "; waiting for the driver's fallback"
            return PoolDecision(PoolState.PENDING, safe_part(wanted, features.dropped), message, dropped)
        fallback, objection = self._fallback(answer)
        if fallback is None:
            message += f"; {objection}, devices that are unsafe without are withdrawn"
            return PoolDecision(
                PoolState.UNSAFE_WITHDRAWN, safe_part(wanted, features.dropped), message, dropped
            )
        return PoolDecision(PoolState.FALLBACK, safe_part(fallback, features.dropped), message, dropped)

    async def _ask(
        self, wanted: Pool, guarding: frozenset[DroppedField]
    ) -> "asyncio.Future[Sequence[Pool] | None]":
        question = (wanted, guarding)
        if self._answer is None or self._question != question:
            await self.close()
            self._question = question
            self._answer = asyncio.ensure_future(self._driver(guarding))
            self._answer.add_done_callback(lambda _: self._wake())
        published = bool(self._context.slices.of(self._name))
        await asyncio.wait({self._answer}, timeout=0 if published else _PATIENCE_SECONDS)
        return self._answer

    async def _driver(self, guarding: frozenset[DroppedField]) -> Sequence[Pool] | None:
        if self._context.on_dropped is None:
            return None
        return await self._context.on_dropped(self._name, guarding)

    def _fallback(self, answer: "asyncio.Future[Sequence[Pool] | None]") -> tuple[Pool | None, str]:
        """Return the pool with this name in the driver's answer, or the reason why there is none."""
        if answer.cancelled():  # canceled by the driver itself: this cancellation must not be passed on
            return None, "the driver's fallback was canceled"
        error = answer.exception()
        if error is not None:
            _log.error("pool %s: the driver's fallback failed", self._name, exc_info=error)
            return None, f"the driver's fallback failed ({error})"
        pools: object = answer.result() or ()
        if not isinstance(pools, Sequence):
            return None, f"the driver's fallback is a {type(pools).__name__}, a list of pools is wanted"
        node = self._context.node
        for pool in pools:
            if not isinstance(pool, Pool):
                return None, f"the driver's fallback has a {type(pool).__name__} in it, pools are wanted"
            if (pool.name or node) == self._name:
                problems = refusals(pool, node)
                return (None, f"the driver's fallback is refused ({problems[0]})") if problems else (pool, "")
        return None, "the driver has no fallback"
