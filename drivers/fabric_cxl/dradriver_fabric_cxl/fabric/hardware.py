"""The interface to a fabric."""

from collections.abc import AsyncGenerator
from typing import Protocol

from dradriver_fabric_cxl.fabric.values import AttachRequest, FabricAttachment, FabricInventory

__all__ = ["Fabric"]


class Fabric(Protocol):
    """One CXL fabric behind its manager. Every call may raise `FabricError`.

    Objects on the manager outlive the process. Each call first reads which objects with the attachment's tag
    exist, and continues from there: after a crash at any point the same call is made again. Calls for different
    attachments may run at the same time; two calls for one attachment may not.
    """

    async def inventory(self) -> FabricInventory:
        """Return the resources of the fabric as they are now.

        Raises:
            ManagerUnreachableError: the manager does not answer.
        """

    async def attach(self, request: AttachRequest) -> FabricAttachment:
        """Attach memory or an accelerator to a host, and wait until the host can use it.

        If the attachment is connected to another host, it is disconnected there first. If the process dies, the
        objects that exist have the tag: `attach` continues, and `detach` removes them. One gap: a manager that
        keeps no tags keeps the first object, if the process dies before the tag is verified.

        Args:
            request: the allocation, the host, and the memory or accelerator.

        Returns:
            The connected attachment.

        Raises:
            NoCapacityError: the domain or the host has no room.
            RequestRefusedError: the manager refuses, or does not know the domain or the host.
            FabricConflictError: a resource was in use until the time limit.
            ManagerBusyError: the manager was busy until the time limit.
            AttachFailedError: the manager's task failed twice.
            AttachTimedOutError: the manager did not finish until the time limit.
            TagNotKeptError: the manager does not keep tags, so nothing can be attached.
            ManagerUnreachableError: the manager does not answer.
        """

    async def detach(self, tag: str) -> None:
        """Remove all objects with a tag, and wait until they are gone; a no-op if there are none.

        The connection is removed first, then the chunk. Objects with another tag stay. If the process dies, the
        next call removes the rest. A creation that does not end is waited for during half of the time limit.
        `attachments` returns its task, and what it makes later.

        Args:
            tag: tag of the attachment.

        Raises:
            RequestRefusedError: the manager refuses, or somebody else's connection uses the chunk.
            FabricConflictError: a resource was in use until the time limit.
            ManagerBusyError: the manager was busy until the time limit.
            AttachTimedOutError: the manager did not finish until the time limit.
            ManagerUnreachableError: the manager does not answer.
        """

    async def attachments(self) -> tuple[FabricAttachment, ...]:
        """Return everything with a tag that exists or is being made, connected or not, by tag."""

    def changes(self) -> AsyncGenerator[None, None]:
        """Yield whenever the resources or attachments may have changed; first at once.

        The reader reads them anew. The iterator may yield without a change. It does not end by itself, and
        recovers by itself while the manager is away.
        """
