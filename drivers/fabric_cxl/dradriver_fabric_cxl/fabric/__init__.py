"""The fabric behind its manager: resources, attachments and their changes.

Law of this package: it knows memory domains, hosts, chunks and connections, and nothing of nodes, slices or
Kubernetes. Only `tags` knows what an allocation is. `hardware.Fabric` is the only interface. A Redfish manager
(`redfish`) and a simulator (`simulator`) implement it with the same rules, and one contract suite tests both.

- `hardware`: `Fabric`, the interface.
- `values`: properties of a fabric as frozen values.
- `tags`: the name under which the manager keeps the objects of an attachment.
- `errors`: one class for each error that callers distinguish.
- `steps`: decides the next step of attach and detach.
- `objects`: the requests that steps are made of, implemented by Redfish and by the simulator.
- `executor`: executes the steps.
- `pace`: time limits.
- `redfish`: a real fabric. It needs the extra `manager`.
- `simulator`: a fabric without hardware.
"""

from dradriver_fabric_cxl.fabric.errors import (
    AnswerLostError,
    AttachFailedError,
    AttachTimedOutError,
    AuthenticationError,
    FabricConflictError,
    FabricError,
    ManagerBusyError,
    ManagerUnreachableError,
    NoCapacityError,
    ObjectChangedError,
    ObjectNotFoundError,
    RequestRefusedError,
    TagNotKeptError,
)
from dradriver_fabric_cxl.fabric.hardware import Fabric
from dradriver_fabric_cxl.fabric.pace import FabricPace
from dradriver_fabric_cxl.fabric.tags import AttachmentIdentity, parse_identity
from dradriver_fabric_cxl.fabric.values import (
    Accelerator,
    AttachRequest,
    FabricAttachment,
    FabricHealth,
    FabricInventory,
    Host,
    MemoryChunk,
    MemoryDomain,
    MemoryRequest,
)

__all__ = [
    "Accelerator",
    "AnswerLostError",
    "AttachFailedError",
    "AttachRequest",
    "AttachTimedOutError",
    "AttachmentIdentity",
    "AuthenticationError",
    "Fabric",
    "FabricAttachment",
    "FabricConflictError",
    "FabricError",
    "FabricHealth",
    "FabricInventory",
    "FabricPace",
    "Host",
    "ManagerBusyError",
    "ManagerUnreachableError",
    "MemoryChunk",
    "MemoryDomain",
    "MemoryRequest",
    "NoCapacityError",
    "ObjectChangedError",
    "ObjectNotFoundError",
    "RequestRefusedError",
    "TagNotKeptError",
    "parse_identity",
]
