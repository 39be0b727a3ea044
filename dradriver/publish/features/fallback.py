"""Choose what to publish while the server drops fields that a pool needs: a fallback or the safe part."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from dradriver.model.resource.attachments import ATTACHED_ON_ALLOCATION
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.publish.context import PublishContext
from dradriver.publish.features.dropped_fields import DroppedField, fields_of, guarding_fields, safe_part
from dradriver.publish.layout import refusals
from dradriver.publish.status import PoolDecision, PoolState

__all__ = ["FallbackChooser"]

_log = logging.getLogger(__name__)

_ANSWER_SECONDS: Final = 1.0
"""Maximum wait for the driver's answer if no slice of the pool is published yet, or if it is surely a fallback.

Otherwise the wait is 0. Without a wait, the devices of the fallback would disappear and come back after each
restart, and nodes look up the devices while they are gone.
"""
_CANCEL_SECONDS: Final = 1.0
"""Time for the driver to clean up after its call is canceled."""


def _decide_without_taints(
    wanted: Pool, unknown: frozenset[DroppedField], message: str, dropped: frozenset[DroppedField]
) -> PoolDecision:
    """Decide to publish the wanted pool without the devices whose taints the server drops."""
    safe = safe_part(wanted, unknown)
    if safe is not None and len(safe.devices) == len(wanted.devices):
        return PoolDecision(PoolState.PUBLISHED, safe, message, dropped)
    message += "; devices with taints that keep claims away are withdrawn"
    return PoolDecision(PoolState.UNSAFE_WITHDRAWN, safe, message, dropped)


def _is_fallback(published: ResourceSlice) -> bool:
    """Return whether the slice is part of a fallback; only devices of a fallback have this attribute."""
    return any(device.attribute(ATTACHED_ON_ALLOCATION) is True for device in published.spec.devices)


class FallbackChooser:
    """Decides for one pool. It calls the driver again only after the pool or the dropped fields change."""

    def __init__(self, name: str, context: PublishContext, wake: Callable[[], None]) -> None:
        self._name = name
        self._context = context
        self._wake = wake
        self._call_key: tuple[Pool, frozenset[DroppedField]] | None = None
        self._call: asyncio.Future[Sequence[Pool] | None] | None = None

    async def close(self) -> None:
        """Cancel the call of the driver. Return when the call has ended, or after a second."""
        answer, self._call = self._call, None
        if answer is None:
            return
        answer.cancel()
        await asyncio.wait({answer}, timeout=_CANCEL_SECONDS)
        if not answer.done():
            _log.error("pool %s: fallback() of the driver did not end after it was canceled", self._name)

    async def choose(self, wanted: Pool) -> PoolDecision:
        """Decide what to publish now. If the driver answers later, another attempt starts then."""
        features = self._context.features
        dropped = fields_of(wanted) & features.dropped
        if not dropped:
            return PoolDecision(PoolState.PUBLISHED, wanted)
        message = f"the API server drops {', '.join(map(str, sorted(dropped)))}"
        if features.server_message:
            message += f": {features.server_message}"
        guarding = guarding_fields(dropped)
        if not guarding:
            return _decide_without_taints(wanted, features.dropped, message, dropped)
        answer = await self._call_driver(wanted, guarding)
        if not answer.done():
            message += "; waiting for the driver's fallback"
            return PoolDecision(PoolState.PENDING, safe_part(wanted, features.dropped), message, dropped)
        fallback, reason = self._read_answer(answer)
        if fallback is None:
            message += f"; {reason}; devices that are unsafe without these fields are withdrawn"
            return PoolDecision(
                PoolState.UNSAFE_WITHDRAWN, safe_part(wanted, features.dropped), message, dropped
            )
        return PoolDecision(PoolState.FALLBACK, safe_part(fallback, features.dropped), message, dropped)

    async def _call_driver(
        self, wanted: Pool, guarding: frozenset[DroppedField]
    ) -> "asyncio.Future[Sequence[Pool] | None]":
        call_key = (wanted, guarding)
        if self._call is None or self._call_key != call_key:
            await self.close()
            self._call_key = call_key
            self._call = asyncio.ensure_future(self._call_on_dropped(guarding))
            self._call.add_done_callback(lambda _: self._wake())
        published = self._context.slices.of(self._name)
        can_wait = not published or any(map(_is_fallback, published))
        await asyncio.wait({self._call}, timeout=_ANSWER_SECONDS if can_wait else 0)
        return self._call

    async def _call_on_dropped(self, guarding: frozenset[DroppedField]) -> Sequence[Pool] | None:
        if self._context.on_dropped is None:
            return None
        return await self._context.on_dropped(self._name, guarding)

    def _read_answer(self, answer: "asyncio.Future[Sequence[Pool] | None]") -> tuple[Pool | None, str]:
        """Return the pool with this pool's name from the driver's answer, or the reason why there is none."""
        if answer.cancelled():  # the driver canceled its call, and this must not cancel the worker
            return None, "the driver's fallback was canceled"
        error = answer.exception()
        if error is not None:
            _log.error("pool %s: the driver's fallback failed", self._name, exc_info=error)
            return None, f"the driver's fallback failed ({error})"
        pools: object = answer.result() or ()
        if not isinstance(pools, Sequence):
            return None, f"the driver's fallback must be a list of pools, not {type(pools).__name__}"
        node = self._context.node
        for pool in pools:
            if not isinstance(pool, Pool):
                return (
                    None,
                    f"the driver's fallback must be a list of pools, but contains {type(pool).__name__}",
                )
            if (pool.name or node) == self._name:
                problems = refusals(pool, node)
                return (None, f"the driver's fallback is not valid ({problems[0]})") if problems else (pool, "")
        return None, "the driver has no fallback"
