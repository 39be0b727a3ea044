"""Write the record of attachments into the metadata of claims.

The write is a JSON patch bound to the resource version. It changes annotation and finalizer together: one never
exists without the other. If the process dies after adding, `attach` was not called yet; the next process calls
it, or calls `detach` if the allocation is gone. If the process dies before removing, `detach` is called once
more.
"""

from collections.abc import Callable, Iterable
from typing import Any

from dradriver.conditions.attachment_diff import finalizer, record_key, recorded, written
from dradriver.driver import Attachment
from dradriver.kube import CLAIMS, Client, Conflict, NotFound, PatchKind
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["AttachmentRecords"]


class AttachmentRecords:
    """The records of one driver.

    Args:
        client: the API server.
        driver: the driver's name.
        wrote: called with each claim as it was written or found.
        gone: called with a claim that no longer exists.
    """

    def __init__(
        self,
        client: Client,
        driver: str,
        wrote: Callable[[ResourceClaim], None],
        gone: Callable[[ResourceClaim], None],
    ) -> None:
        self._client = client
        self._driver = driver
        self._wrote = wrote
        self._gone = gone

    async def add(self, claim: ResourceClaim, new: Iterable[Attachment]) -> None:
        """Add attachments to the record; no-op if the claim has changed, because a new decision is then due."""
        try:
            await self._write(claim, {*recorded(claim, self._driver), *new})
        except Conflict:
            await self._read(claim)

    async def remove(self, claim: ResourceClaim, gone: Iterable[Attachment]) -> None:
        """Remove attachments from the record; with the last one, also remove the finalizer.

        The claim can then be deleted. Other changes of the claim do not matter: a detached device is not
        attached.
        """
        current: ResourceClaim | None = claim
        while current is not None and current.metadata.uid == claim.metadata.uid:
            try:
                await self._write(current, set(recorded(current, self._driver)) - set(gone))
            except Conflict:
                current = await self._read(claim)
            else:
                return

    async def _write(self, claim: ResourceClaim, record: set[Attachment]) -> None:
        meta = claim.metadata
        mine = finalizer(self._driver)
        others = [each for each in meta.finalizers if each != mine]
        annotations = {k: v for k, v in meta.annotations.items() if k != record_key(self._driver)}
        if record:
            annotations[record_key(self._driver)] = written(record)
        body: list[dict[str, Any]] = [
            {"op": "add", "path": "/metadata/resourceVersion", "value": meta.resource_version},
            {"op": "add", "path": "/metadata/annotations", "value": annotations},
            {"op": "add", "path": "/metadata/finalizers", "value": [*others, mine] if record else others},
        ]
        try:
            stored = await self._client.patch(
                *(CLAIMS, meta.name, meta.namespace, body, PatchKind.JSON), into=ResourceClaim
            )
        except NotFound:
            self._gone(claim)
            return
        self._wrote(stored)
        if stored.metadata.deletion_timestamp is not None and not stored.metadata.finalizers:
            self._gone(stored)

    async def _read(self, claim: ResourceClaim) -> ResourceClaim | None:
        meta = claim.metadata
        try:
            current = await self._client.get(CLAIMS, meta.name, meta.namespace, into=ResourceClaim)
        except NotFound:
            self._gone(claim)
            return None
        self._wrote(current)
        return current
