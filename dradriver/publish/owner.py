"""The object that owns a publisher's slices: when it is deleted, they are deleted."""

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
    """An object that may own slices; without a `uid` it is looked up, and a re-created object is detected.

    Slices are cluster-scoped, and Kubernetes' garbage collector never deletes a cluster-scoped object because
    of a namespaced owner. So a Deployment cannot own them.
    """

    resource: Resource
    name: str
    uid: str = ""

    @classmethod
    def of_node(cls, node: NodeRef) -> "OwnerRef":
        """Return the Node of a publisher that runs for a node."""
        return cls(NODES, node.name, node.uid)

    @classmethod
    def parse(cls, text: str) -> "OwnerRef":
        """Parse `deviceclass/NAME` or `namespace/NAME`.

        Raises:
            UsageError: the text has neither form.
        """
        kind, _, name = text.partition("/")
        resource = _KINDS.get(kind.lower())
        if resource is None:
            allowed = " or ".join(f"{kind}/NAME" for kind in _KINDS)
            raise UsageError(
                f"{text!r} can't own ResourceSlices: {allowed} is wanted, because an object in a namespace "
                "can't own what is in none"
            )
        if rule := names.dns_subdomain(name):
            raise UsageError(f"{text!r}: {rule}")
        return cls(resource, name)

    def __str__(self) -> str:
        return f"{self.resource.kind.lower()} {self.name}"


class SliceOwner:
    """The owner reference of the publisher's slices, kept current.

    An object that is deleted and created again has another UID. Slices with the old UID are garbage-collected,
    again and again. So the owner is read again whenever slices disappear.
    """

    def __init__(self, client: Client, owner: OwnerRef | None) -> None:
        self._client = client
        self._owner = owner
        self._uid = owner.uid if owner else ""
        self._lock = asyncio.Lock()

    def doubt(self) -> None:
        """Read the owner again before the next write, because slices disappeared."""
        self._uid = ""

    async def reference(self) -> OwnerReference | None:
        """Return the owner reference; None for slices without an owner.

        Raises:
            DraError: the object does not exist or cannot be read.
        """
        owner = self._owner
        if owner is None:
            return None
        async with self._lock:
            if not self._uid:
                self._uid = await self._look(owner)
        return OwnerReference(
            api_version=owner.resource.api_version,
            kind=owner.resource.kind,
            name=owner.name,
            uid=self._uid,
            controller=True,
        )

    async def _look(self, owner: OwnerRef) -> str:
        try:
            found: dict[str, Any] = await self._client.get(owner.resource, owner.name, into=dict)
        except NotFound:
            kind = owner.resource.kind
            raise DraError(f"{owner}: there is no such {kind} object, nothing can be published") from None
        except Forbidden:
            if not owner.uid:
                raise
            return owner.uid  # the only known value: the publisher may not read the object
        return str(found["metadata"]["uid"])
