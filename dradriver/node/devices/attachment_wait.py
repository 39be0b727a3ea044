"""Delay the prepare of a device until the pool driver has attached it, if the pod was bound without waiting.

If the API server drops binding conditions, a pod is bound as soon as its claim is allocated. The process of the
pool driver attaches the device then, and writes its decision to the claim's status
(`model.resource.attachments`). A prepare without a decision is answered with "in progress", and records
nothing, so an unprepare does not wait for it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from dradriver.kube.backoff import Backoff
from dradriver.model.core.conditions import is_true
from dradriver.model.core.meta import Condition
from dradriver.model.resource.attachments import (
    finalizer,
    is_attached_on_allocation,
    prepare_allowed,
    prepare_refused,
)
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.node.devices.inventory import DiscoveredDevices
from dradriver.node.errors import ClaimError, NotAttachedError
from dradriver.node.state.records import ClaimRef

__all__ = ["ClaimChanges", "check_attached"]

_POLL_SECONDS: Final = (0.1, 2.0)
"""First and longest time between two reads of a claim, for a process that does not watch claims."""


def check_attached(claim: ResourceClaim, driver: str, inventory: DiscoveredDevices) -> None:
    """Check that the pool driver has attached the claim's devices that it attaches on allocation.

    Devices with binding conditions in the allocation result are not checked, because the scheduler has waited
    for them. Devices of the node's own pools are not checked either: the driver's `prepare` attaches them.

    Args:
        claim: the claim as the API server has it now, allocated for this node.
        driver: the driver's name.
        inventory: the discovered devices, and the pools of the pool driver, as they are published.

    Raises:
        NotAttachedError: the decision about a device is pending.
        ClaimError: a device cannot be attached. This does not change while the claim is allocated.
    """
    for result in claim.results:
        if result.driver != driver or result.binding_conditions or result.admin_access:
            continue
        if inventory.select_shared([result.pool]):
            _check_device(claim, result, inventory)


def _check_device(claim: ResourceClaim, result: DeviceResult, inventory: DiscoveredDevices) -> None:
    status = claim.device_status(result.id)
    conditions: Sequence[Condition] = status.conditions if status is not None else []
    refused = prepare_refused(result.driver)
    subject = f"claim {claim.ref} (UID {claim.metadata.uid}): device {result.id}"
    for each in conditions:
        if each.type == refused and each.status == "True":
            raise ClaimError(
                f"{subject} cannot be attached: {each.reason}: {each.message}; "
                "delete the pod: this allocation cannot succeed any more"
            )
    if is_true(conditions, prepare_allowed(result.driver)):
        return
    device = inventory.device(result.pool, result.device)
    # The finalizer shows that the pool driver attaches a device that is not published at the moment.
    is_recorded = finalizer(result.driver) in claim.metadata.finalizers
    if is_recorded if device is None else is_attached_on_allocation(device):
        pending = [f"{each.type} ({each.reason})" for each in conditions if each.status != "True"]
        raise NotAttachedError(
            f"{subject}: the pool driver has not attached it yet, the prepare is still in progress"
            + (f": waiting for {', '.join(pending)}" if pending else "")
        )


class ClaimChanges:
    """Waits for changes of single claims, by reading them again; call `close()` before the process stops.

    Args:
        look_up: returns a claim as the API server has it now.
    """

    def __init__(self, look_up: Callable[[ClaimRef], Awaitable[ResourceClaim]]) -> None:
        self._look_up = look_up
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._closed = False

    def close(self) -> None:
        """End all waits, so that the kubelet's calls are answered and the process can stop."""
        self._closed = True
        for uid in self._waiting:
            self.notify(uid)

    def notify(self, uid: str) -> None:
        """Report that a claim has changed; a process that watches claims calls this, so that no wait polls."""
        for event in self._waiting.get(uid, ()):
            event.set()

    async def wait(self, claim: ResourceClaim, until: float) -> ResourceClaim | None:
        """Return the claim when it differs from `claim`; None at the time `until`, or after `close()`.

        Args:
            claim: the claim as the caller knows it.
            until: a time of the event loop's clock.

        Raises:
            DraError: the claim is gone or was replaced, or the API server did not answer.
        """
        meta, backoff, changed = claim.metadata, Backoff(*_POLL_SECONDS), asyncio.Event()
        ref = ClaimRef(meta.uid, meta.namespace, meta.name)
        self._waiting[meta.uid].add(changed)
        try:
            async with asyncio.timeout_at(until):
                while not self._closed:
                    await _pause(changed, backoff.next())
                    changed.clear()
                    current = await self._look_up(ref)
                    if current.metadata.resource_version != meta.resource_version:
                        return current
                return None
        except TimeoutError:
            return None
        finally:
            self._waiting[meta.uid].discard(changed)
            if not self._waiting[meta.uid]:
                del self._waiting[meta.uid]


async def _pause(changed: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        return
