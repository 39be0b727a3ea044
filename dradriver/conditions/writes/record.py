"""Write the record of attachments into the metadata of claims.

The write is a JSON patch that fails if the claim's resource version has changed. It changes annotation and
finalizer together: one never exists without the other. If the process dies after an attachment is added,
`attach` was not called yet; the next process calls it, or calls `detach` if the allocation is gone. If the
process dies after `detach` and before the attachment is removed, `detach` is called once more.
"""

from collections.abc import Callable, Iterable
from typing import Any

from dradriver.conditions.attachment_diff import encode_record, finalizer, read_record, record_key
from dradriver.driver import Attachment
from dradriver.kube import CLAIMS, Client, Conflict, NotFound, PatchKind
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["AttachmentRecords"]


class AttachmentRecords:
    """The records of one driver.

    Args:
        client: the API server.
        driver: the driver's name.
        on_read: called with each claim as the API server returned it.
        on_deleted: called with a claim that no longer exists.
    """

    def __init__(
        self,
        client: Client,
        driver: str,
        on_read: Callable[[ResourceClaim], None],
        on_deleted: Callable[[ResourceClaim], None],
    ) -> None:
        self._client = client
        self._driver = driver
        self._on_read = on_read
        self._on_deleted = on_deleted

    async def add(self, claim: ResourceClaim, new: Iterable[Attachment]) -> None:
        """Add attachments to the record. No-op if the claim has changed: the caller must decide again."""
        try:
            await self._write(claim, {*read_record(claim, self._driver), *new})
        except Conflict:
            await self._read(claim)

    async def remove(self, claim: ResourceClaim, detached: Iterable[Attachment]) -> None:
        """Remove attachments from the record; with the last one, also remove the finalizer.

        Without the finalizer the claim can be deleted. If the claim has changed, the write is repeated with the
        current claim, because a detached device stays detached, whatever else has changed.
        """
        current: ResourceClaim | None = claim
        while current is not None and current.metadata.uid == claim.metadata.uid:
            try:
                await self._write(current, set(read_record(current, self._driver)) - set(detached))
            except Conflict:
                current = await self._read(claim)
            else:
                return

    async def _write(self, claim: ResourceClaim, record: set[Attachment]) -> None:
        meta = claim.metadata
        own_finalizer = finalizer(self._driver)
        others = [each for each in meta.finalizers if each != own_finalizer]
        annotations = {k: v for k, v in meta.annotations.items() if k != record_key(self._driver)}
        if record:
            annotations[record_key(self._driver)] = encode_record(record)
        body: list[dict[str, Any]] = [
            {"op": "add", "path": "/metadata/resourceVersion", "value": meta.resource_version},
            {"op": "add", "path": "/metadata/annotations", "value": annotations},
            {
                "op": "add",
                "path": "/metadata/finalizers",
                "value": [*others, own_finalizer] if record else others,
            },
        ]
        try:
            stored = await self._client.patch(
                *(CLAIMS, meta.name, meta.namespace, body, PatchKind.JSON), into=ResourceClaim
            )
        except NotFound:
            self._on_deleted(claim)
            return
        self._on_read(stored)
        if stored.metadata.deletion_timestamp is not None and not stored.metadata.finalizers:
            self._on_deleted(stored)

    async def _read(self, claim: ResourceClaim) -> ResourceClaim | None:
        meta = claim.metadata
        try:
            current = await self._client.get(CLAIMS, meta.name, meta.namespace, into=ResourceClaim)
        except NotFound:
            self._on_deleted(claim)
            return None
        self._on_read(current)
        return current
