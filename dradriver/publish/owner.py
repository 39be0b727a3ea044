"""The object that owns a publisher's slices: when it goes, they go."""

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
    """An object that may own slices. With no `uid` it is looked up; one made anew under that name is noticed.

    Slices belong to no namespace, and the garbage collector of Kubernetes never deletes what is owned by an
    object that does: so a Deployment can't own them.
    """

    resource: Resource
    name: str
    uid: str = ""

    @classmethod
    def of_node(cls, node: NodeRef) -> "OwnerRef":
        """The Node of a publisher that runs for one."""
        return cls(NODES, node.name, node.uid)

    @classmethod
    def parse(cls, text: str) -> "OwnerRef":
        """`deviceclass/NAME` or `namespace/NAME`.

        Raises:
            UsageError: it is neither.
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
    """The owner reference of the publisher's slices, kept true.

    An object that is deleted and made anew has another UID; slices that name the old one are collected as
    garbage, again and again. So the owner is looked at once more whenever slices vanish.
    """

    def __init__(self, client: Client, owner: OwnerRef | None) -> None:
        self._client = client
        self._owner = owner
        self._uid = owner.uid if owner else ""
        self._lock = asyncio.Lock()

    def doubt(self) -> None:
        """Slices vanished: look at the owner again before the next write."""
        self._uid = ""

    async def reference(self) -> OwnerReference | None:
        """The owner reference, None for slices that nobody owns.

        Raises:
            DraError: there is no such object, or it can't be read.
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
            return owner.uid  # all that is known: there is no right to read the object
        return str(found["metadata"]["uid"])
