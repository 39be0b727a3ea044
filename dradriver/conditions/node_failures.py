"""Take over failures that nodes report: taint the device, then set its failure condition.

A node cannot taint a device of a pool that this process publishes. It sets a condition of its own
(`attachment_diff.node_failure`), which neither binds the pod nor fails it.

| side effect            | if the process dies right after it                            |
|------------------------|---------------------------------------------------------------|
| device tainted         | the next process taints it again, and sets the condition      |
| failure condition set  | nothing is left to do: the scheduler deallocates the claim    |
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping

from dradriver.conditions.attachment_diff import allocated_device, attachments_of, device_key, node_failure
from dradriver.conditions.quarantine.quarantine import Quarantine
from dradriver.conditions.writes.writer import ConditionWriter
from dradriver.driver import Attachment, BindingDriver
from dradriver.kube import Cache, Client
from dradriver.model.core.meta import Condition
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["NodeFailures"]

_log = logging.getLogger(__name__)


class NodeFailures:
    """Handles the failures that nodes report about a driver's devices.

    Args:
        driver: the author's driver.
        client: the API server.
        claims: the claims as they are now.
        quarantine: taints failed devices.
        locks: by pool, device and share (`device_key`), held while a method of the driver works on it.
        pending: returns the attachments of a claim whose failure must be taken over.
        fill: fills in the conditions that the API server dropped from a claim's allocation.
    """

    def __init__(
        self,
        driver: BindingDriver,
        client: Client,
        claims: Cache[ResourceClaim],
        *,
        quarantine: Quarantine,
        locks: Mapping[tuple[str, str, str], asyncio.Lock],
        pending: Callable[[ResourceClaim], Collection[Attachment]],
        fill: Callable[[ResourceClaim], ResourceClaim],
    ) -> None:
        self._driver = driver
        self._client = client
        self._claims = claims
        self._quarantine = quarantine
        self._locks = locks
        self._pending = pending
        self._fill = fill

    async def take_over(self, claim: ResourceClaim, attachment: Attachment) -> None:
        """Taint the device, and then set its failure condition with the node's reason and message.

        A running `attach` of this process ends first, because its success would remove the taint.

        Raises:
            DraError: the condition could not be written, or the allocation is gone. The claim is tried again.
        """
        async with self._locks[device_key(attachment)]:
            current = self._claims.items.get(claim.ref)
            if current is None or attachment not in self._pending(current):
                return
            result = attachments_of(self._fill(current), self._driver.name)[attachment]
            if (reported := node_failure(current, result)) is None:
                return
            _log.warning(
                "device %s: attach failed on node %s: %s", result.id, attachment.node, reported.message
            )
            await self._quarantine.add(result.pool, result.device, "attach-failed")
            failures = result.binding_failure_conditions
            wanted = self._driver.node_failure_condition
            failure = Condition(
                type=wanted if wanted in failures else failures[0],
                status="True",
                reason=reported.reason,
                message=reported.message,
            )
            writer = ConditionWriter(self._client, self._driver.name, current, self._claims.apply_written)
            await writer.set_all(allocated_device(result), [failure])
