"""The object that owns a publisher's slices. Kubernetes deletes the slices when the owner is deleted."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from dradriver.errors import DraError, UsageError
from dradriver.kube import CLASSES, NAMESPACES, NODES, Client, Forbidden, NotFound, Resource
from dradriver.model import names
from dradriver.model.core.meta import OwnerReference
from dradriver.publish.status import NodeRef

__all__ = ["OwnerRef", "SliceOwner"]

_KINDS: Final[Mapping[str, Resource]] = MappingProxyType({"deviceclass": CLASSES, "namespace": NAMESPACES})


@dataclass(frozen=True, slots=True)
class OwnerRef:
    """An object that may own slices. If `uid` is empty, it is looked up, and a re-created object is detected.

    Slices are cluster-scoped. If the owner of a cluster-scoped object is namespaced, Kubernetes' garbage
    collector never deletes the object. So a Deployment cannot own slices.
    """

    resource: Resource
    name: str
    uid: str = ""

    @classmethod
    def of_node(cls, node: NodeRef) -> "OwnerRef":
        """Return the owner for a publisher that runs for a node: the Node.

        Args:
            node: the node's name, with its UID if it is known.
        """
        return cls(NODES, node.name, node.uid)

    @classmethod
    def parse(cls, text: str) -> "OwnerRef":
        """Return the owner that a text describes.

        Args:
            text: `deviceclass/NAME` or `namespace/NAME`. The kind is case-insensitive.

        Raises:
            UsageError: the text has neither form.
        """
        kind, _, name = text.partition("/")
        resource = _KINDS.get(kind.lower())
        if resource is None:
            allowed = " or ".join(f"{kind}/NAME" for kind in _KINDS)
            raise UsageError(
                f"{text!r} cannot own ResourceSlices: must be {allowed} (a namespaced object cannot own "
                "cluster-scoped ones)"
            )
        if rule := names.dns_subdomain(name):
            raise UsageError(f"{text!r}: {rule}")
        return cls(resource, name)

    def __str__(self) -> str:
        return f"{self.resource.kind.lower()} {self.name}"


class SliceOwner:
    """Keeps the owner reference of the publisher's slices current.

    If the owner is deleted and created again, it has another UID. Slices with the old UID would be
    garbage-collected again and again. So the owner is read again whenever slices disappear.
    """

    def __init__(self, client: Client, owner: OwnerRef | None) -> None:
        self._client = client
        self._owner = owner
        self._uid = owner.uid if owner else ""
        self._lock = asyncio.Lock()

    def invalidate(self) -> None:
        """Read the owner again before the next write, because slices disappeared."""
        self._uid = ""

    async def reference(self) -> OwnerReference | None:
        """Return the owner reference; None if the slices have no owner.

        Raises:
            DraError: the owner does not exist or cannot be read.
        """
        owner = self._owner
        if owner is None:
            return None
        async with self._lock:
            if not self._uid:
                self._uid = await self._look_up_uid(owner)
        return OwnerReference(
            api_version=owner.resource.api_version,
            kind=owner.resource.kind,
            name=owner.name,
            uid=self._uid,
            controller=True,
        )

    async def _look_up_uid(self, owner: OwnerRef) -> str:
        try:
            owner_object: dict[str, Any] = await self._client.get(owner.resource, owner.name, into=dict)
        except NotFound:
            kind = owner.resource.kind
            raise DraError(f"{owner}: the {kind} does not exist, so no slice is published") from None
        except Forbidden:
            if not owner.uid:
                raise
            return owner.uid  # the publisher has no permission to read the owner, so only this UID is known
        return str(owner_object["metadata"]["uid"])
