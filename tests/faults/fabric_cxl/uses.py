"""Who uses what, in the order of the API server's changes: allocations of claims, and usage notes of nodes."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from dradriver.conditions.attachment_diff import allocated_attachments
from dradriver.driver import Attachment
from dradriver.errors import InvalidObjectError
from dradriver.kube import CONFIG_MAPS, Cache, ChangeKind, Client
from dradriver.model.core.config_map import ConfigMap
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.usage.note import UsageEntry, decode_note
from dradriver_fabric_cxl.fabric.tags import AttachmentIdentity
from dradriver_fabric_cxl.names import DRIVER

_SECONDS: Final = 30.0
"""Limit for a change that the API server has already made."""


@dataclass
class Uses:
    """What claims are allocated, and what the notes name.

    The resource versions of one API server tell which of two changes was first.

    Attributes:
        client: the API server.
        claims: all claims.
        notes: all usage notes.
    """

    client: Client
    claims: Cache[ResourceClaim]
    notes: Cache[ConfigMap]
    _named: dict[str, dict[UsageEntry, int]] = field(default_factory=dict)
    _ended: dict[UsageEntry, int] = field(default_factory=dict)
    _versions: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.claims.subscribe(self._see_claim)
        self.notes.subscribe(self._see_note)

    def list_named(self) -> set[UsageEntry]:
        """Return what the notes name."""
        return {entry for entries in self._named.values() for entry in entries}

    async def judge_pull(self, identity: AttachmentIdentity) -> str:
        """Return why a device must not be disconnected now; empty if it may.

        A node that writes its note when the allocation has already ended gives up by itself: it reads the
        claim after the note. So only a note that is older than the end of the allocation forbids it.
        """
        pulled = to_entry(identity)
        listing = await self.client.list(CONFIG_MAPS, "default", into=ConfigMap)
        try:
            async with asyncio.timeout(_SECONDS):
                while pulled not in self._ended:
                    await asyncio.sleep(0.01)
                while any(self._is_behind(each) for each in listing.items):
                    await asyncio.sleep(0.01)
        except TimeoutError:
            return f"{identity} is disconnected while it is allocated"
        present = {entry for each in listing.items for entry in _entries(each)}
        for node, entries in self._named.items():
            for entry, since in entries.items():
                if entry in present and entry.covers(pulled) and since < self._ended[pulled]:
                    return f"{identity} is disconnected while {node} names it, since version {since}"
        return ""

    def _is_behind(self, note: ConfigMap) -> bool:
        return self._versions.get(note.metadata.name, 0) < int(note.metadata.resource_version)

    def _see_claim(self, kind: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        seen = new or old
        assert seen is not None
        before, after = _allocated(old), set[UsageEntry]() if new is None else _allocated(new)
        self._ended |= dict.fromkeys(before - after, int(seen.metadata.resource_version))
        for entry in after - before:
            self._ended.pop(entry, None)

    def _see_note(self, kind: ChangeKind, old: ConfigMap | None, new: ConfigMap | None) -> None:
        seen = new or old
        assert seen is not None
        name, version = seen.metadata.name, int(seen.metadata.resource_version)
        earlier = self._named.get(name, {})
        self._named[name] = {entry: earlier.get(entry, version) for entry in _entries(new)}
        self._versions[name] = version


def to_entry(used: Attachment | AttachmentIdentity) -> UsageEntry:
    """Return what a node's note has for this attachment."""
    if isinstance(used, AttachmentIdentity):
        claim, share, allocated = used.claim, used.share, used.allocated_at
    else:
        claim, share, allocated = used.claim_uid, used.share_id, used.allocated
    return UsageEntry(claim_uid=claim, pool=used.pool, device=used.device, share_id=share, allocated=allocated)


def _allocated(claim: ResourceClaim | None) -> set[UsageEntry]:
    return {to_entry(each) for each in allocated_attachments(claim, DRIVER)} if claim else set()


def _entries(note: ConfigMap | None) -> set[UsageEntry]:
    if note is None:
        return set()
    try:
        return set(decode_note(note).entries)
    except InvalidObjectError:
        return set()  # another ConfigMap
