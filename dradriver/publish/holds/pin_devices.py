"""Pin devices that claims hold: look the claims up, and keep pinned devices as they are published.

The rules are in `pinned_changes`, which is pure. This module gets their input.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from dradriver.errors import DraError
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.pool import Pool
from dradriver.publish.context import PublishContext
from dradriver.publish.features.dropped_fields import safe_part, unsafe
from dradriver.publish.holds.pinned_changes import (
    PinnedPool,
    affected_devices,
    hold_back,
    hold_fallback,
    left_out,
)
from dradriver.publish.status import PoolDecision, PoolState

__all__ = ["pin_devices"]

_log = logging.getLogger(__name__)

_FEW: Final = 8


async def pin_devices(context: PublishContext, name: str, wanted: Pool, decision: PoolDecision) -> PoolDecision:
    """Remove the changes that must wait for claims from a decision.

    Args:
        context: the values that the publisher's pools share.
        name: the pool's name.
        wanted: the pool that the driver wants.
        decision: the pool to publish as the server's features allow it: the wanted one, or a fallback.

    Returns:
        The decision itself if nothing has to wait. Otherwise the state is HELD, `held_by` names the claims, and
        `pool` is the part that may be published until they are gone; None if all of it has to wait.

    Raises:
        DraError: slices of an earlier process cannot be listed.
    """
    pool, published = decision.pool, context.recall(name)
    is_fallback = bool(unsafe(decision.dropped))
    if pool is None or (is_fallback and decision.state is not PoolState.FALLBACK):
        return decision
    if is_fallback:
        find = partial(left_out, pool, wanted, published)
    else:
        find = partial(affected_devices, pool, published)
    devices, claims, error = await _look_up(context, name, find)
    if not devices:
        return decision
    if is_fallback:
        pinned = PinnedPool(hold_fallback(pool, published, claims), frozenset(claims))
    else:
        pinned = hold_back(pool, published, claims)
        if error is None:
            published.forget(devices - set(claims) - {device.name for device in pool.devices})
    if not pinned.held:
        return decision
    reason = _reason(pinned, error, is_fallback=is_fallback)
    return replace(
        decision,
        # Kept devices may use fields that the server stored before and drops now.
        pool=None if pinned.pool is None else safe_part(pinned.pool, context.features.dropped),
        state=PoolState.HELD,
        message="; ".join(filter(None, (decision.message, reason))),
        held_by=tuple(sorted({claims[device] for device in pinned.held})),
    )


def _reason(pinned: PinnedPool, error: DraError | None, *, is_fallback: bool) -> str:
    held = _few(pinned.held)
    if error is not None:
        return f"it can't be told who holds {held}: {error}"
    if is_fallback:
        return f"the fallback leaves out {held} and is not published while claims hold what it leaves out"
    waiting = f"; not published until then: {_few(pinned.waiting)}" if pinned.waiting else ""
    return (
        f"counters or groups of {held} stay as they are while claims hold them, "
        f"and so does what else is in these counter sets{waiting}"
    )


async def _look_up(
    context: PublishContext, name: str, find: Callable[[], set[str]]
) -> tuple[set[str], Mapping[str, str], DraError | None]:
    """Return the affected devices, the claim that holds each of them, and the error if that is unknown.

    If the claims cannot be read, every device counts as held by the claim `unknown`.
    """
    if context.recall(name).adopted and find():
        await _distrust_changed(context, name)
    devices = find()
    if not devices:
        return devices, {}, None
    try:
        claims = await context.allocation_lookup({DeviceId(context.driver, name, each) for each in devices})
    except DraError as error:
        return devices, dict.fromkeys(devices, "unknown"), error
    return devices, {device.device: claim for device, claim in claims.items()}, None


async def _distrust_changed(context: PublishContext, name: str) -> None:
    """Distinguish slices of an earlier process from slices that another writer changed after it.

    The caches omit `managedFields`, which are needed at most once. So the slices are listed.
    """
    slices = await context.slices.list_raw(name)
    if foreign := context.recall(name).distrust(slices, context.client.field_manager):
        _log.warning(
            "pool %s: slices %s were changed by others while no driver ran, so they do not say what claims "
            "hold; the driver's own counters are published",
            name,
            _few(foreign),
        )


def _few(names: Collection[str]) -> str:
    """Return some names for a message; a pool has thousands."""
    rest = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(sorted(names)[:_FEW]) + rest
