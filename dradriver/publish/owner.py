"""The Node that owns the slices of its plugins: when it goes, they go."""

import asyncio

from dradriver.errors import DraError
from dradriver.kube import NODES, Client, Forbidden, NotFound
from dradriver.model.codec import Value
from dradriver.model.meta import ObjectMeta, OwnerReference
from dradriver.publish.status import NodeRef

__all__ = ["NodeOwner"]


class _Node(Value, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class NodeOwner:
    """The owner reference of the publisher's slices, kept true.

    A Node that is deleted and made anew has another UID; slices that name the old one are collected as garbage,
    again and again. So the Node is looked at once more whenever slices vanish.
    """

    def __init__(self, client: Client, node: NodeRef | None) -> None:
        self._client = client
        self._node = node
        self._uid = node.uid if node else ""
        self._lock = asyncio.Lock()

    def doubt(self) -> None:
        """Slices vanished: look at the Node again before the next write."""
        self._uid = ""

    async def reference(self) -> OwnerReference | None:
        """The owner reference, None for a publisher of the control plane.

        Raises:
            DraError: there is no such Node, or it can't be read.
        """
        if self._node is None:
            return None
        async with self._lock:
            if not self._uid:
                self._uid = await self._look(self._node)
        return OwnerReference(
            api_version="v1", kind="Node", name=self._node.name, uid=self._uid, controller=True
        )

    async def _look(self, node: NodeRef) -> str:
        try:
            return (await self._client.get(NODES, node.name, into=_Node)).metadata.uid
        except NotFound:
            raise DraError(
                f"node {node.name}: there is no such Node object, nothing can be published"
            ) from None
        except Forbidden:
            if not node.uid:
                raise
            return node.uid  # all that is known; the cluster does not let us look
