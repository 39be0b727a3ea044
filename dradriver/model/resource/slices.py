"""ResourceSlice: the API object in which a pool's devices are published."""

from typing import Final

from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.encoding.codec import Value
from dradriver.model.resource.counters import CounterSet
from dradriver.model.resource.device import Device

__all__ = [
    "MAX_DEVICES",
    "MAX_DEVICES_ADVANCED",
    "PoolReference",
    "ResourceSlice",
    "ResourceSliceSpec",
]

MAX_DEVICES: Final = 128
"""Maximum number of devices in one slice (`ResourceSliceMaxDevices`)."""
MAX_DEVICES_ADVANCED: Final = 64
"""Maximum number of devices in a slice if a device has taints or list attributes or consumes counters."""


class PoolReference(Value, frozen=True, kw_only=True, omit_defaults=False):
    """The pool of a slice, its generation, and its number of slices at that generation."""

    name: str
    generation: int
    resource_slice_count: int


class ResourceSliceSpec(Value, frozen=True, kw_only=True):
    """Devices or counter sets of one pool, and the nodes that reach the pool."""

    driver: str
    pool: PoolReference
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[Device] = []
    shared_counters: list[CounterSet] = []
    partition_type_attribute: str | None = None
    skip_node_operations: list[str] = []


class ResourceSlice(Value, frozen=True, kw_only=True):
    """`resource.k8s.io/v1` ResourceSlice."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec
