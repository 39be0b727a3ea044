"""Look up the claims that hold devices, and keep these devices as they are published.

`pinned_changes` contains the rules as pure functions. This module reads the values that the rules need.
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
from dradriver.publish.features.dropped_fields import guarding_fields, safe_part
from dradriver.publish.holds.pinned_changes import (
    PinnedPool,
    affected_devices,
    omitted_devices,
    pin_fallback,
    pin_pool,
)
from dradriver.publish.status import PoolDecision, PoolState

__all__ = ["pin_devices"]

_log = logging.getLogger(__name__)

_MAX_NAMES: Final = 8


async def pin_devices(context: PublishContext, name: str, wanted: Pool, decision: PoolDecision) -> PoolDecision:
    """Remove from a decision the changes that must wait for claims.

    Args:
        context: the values that the publisher's pools share.
        name: the pool's name.
        wanted: the pool that the driver wants.
        decision: the pool that the server's feature gates allow: the wanted pool, a part of it, or a fallback.

    Returns:
        The decision itself if no change must wait. Otherwise a decision with the state HELD. Its `held_by`
        names the claims. Its `pool` is the part that may be published while the claims hold devices; None if
        the whole pool must wait.

    Raises:
        DraError: slices of an earlier process cannot be listed.
    """
    pool, published = decision.pool, context.recall(name)
    is_fallback = bool(guarding_fields(decision.dropped))
    if pool is None or (is_fallback and decision.state is not PoolState.FALLBACK):
        return decision
    if is_fallback:
        find_devices = partial(omitted_devices, pool, wanted, published)
    else:
        find_devices = partial(affected_devices, pool, published)
    devices, claims, error = await _look_up(context, name, find_devices)
    if not devices:
        return decision
    if is_fallback:
        pinned = PinnedPool(pin_fallback(pool, published, claims), frozenset(claims))
    else:
        pinned = pin_pool(pool, published, claims)
        if error is None:
            published.forget(devices - set(claims) - {device.name for device in pool.devices})
    if not pinned.held:
        return decision
    reason = _explain(pinned, error, is_fallback=is_fallback)
    return replace(
        decision,
        # Kept devices may use fields that the server stored earlier but drops now.
        pool=None if pinned.pool is None else safe_part(pinned.pool, context.features.dropped),
        state=PoolState.HELD,
        message="; ".join(filter(None, (decision.message, reason))),
        held_by=tuple(sorted({claims[device] for device in pinned.held})),
    )


def _explain(pinned: PinnedPool, error: DraError | None, *, is_fallback: bool) -> str:
    held = _join_some(pinned.held)
    if error is not None:
        return f"the claims that hold {held} cannot be read: {error}"
    if is_fallback:
        return f"the fallback omits {held} and is not published while claims hold these devices"
    waiting = f"; not published until then: {_join_some(pinned.waiting)}" if pinned.waiting else ""
    return (
        f"counters, groups and counter sets of {held} stay unchanged while claims hold these devices, "
        f"and so do the other devices on these counter sets{waiting}"
    )


async def _look_up(
    context: PublishContext, name: str, find_devices: Callable[[], set[str]]
) -> tuple[set[str], Mapping[str, str], DraError | None]:
    """Return the affected devices, the claim that holds each, and the error if the claims are unknown.

    If the claims cannot be read, every affected device counts as held by a claim named `unknown`.
    """
    if context.recall(name).is_adopted and find_devices():
        await _drop_foreign_values(context, name)
    devices = find_devices()
    if not devices:
        return devices, {}, None
    try:
        claims = await context.allocation_lookup({DeviceId(context.driver, name, each) for each in devices})
    except DraError as error:
        return devices, dict.fromkeys(devices, "unknown"), error
    return devices, {device.device: claim for device, claim in claims.items()}, None


async def _drop_foreign_values(context: PublishContext, name: str) -> None:
    """Drop values that were adopted from slices that another writer changed after the earlier process.

    This reads `managedFields`, which the caches omit because they are needed at most once. So the slices are
    listed.
    """
    slices = await context.slices.list_raw(name)
    if foreign := context.recall(name).drop_foreign(slices, context.client.field_manager):
        _log.warning(
            "pool %s: another writer changed slices %s while no driver ran, so they do not show the counters "
            "of allocated devices; the driver's own counters are published",
            name,
            _join_some(foreign),
        )


def _join_some(names: Collection[str]) -> str:
    """Return the first names for a message, because a pool may have thousands of devices."""
    rest = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(sorted(names)[:_MAX_NAMES]) + rest
