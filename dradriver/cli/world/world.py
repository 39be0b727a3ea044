"""The objects of a cluster."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from msgspec.structs import replace

from dradriver.allocator import AllocationNode
from dradriver.cli.files import Document
from dradriver.cli.world.events import PodEvent
from dradriver.errors import DraError, InvalidObjectError, Problem
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.classic.names import GROUP
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.model.core.lease import Lease
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.workload import Node, Pod
from dradriver.model.encoding.codec import decode
from dradriver.model.resource.claim import ResourceClaim, ResourceClaimTemplate
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slice_reader import SliceReader
from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule

__all__ = ["DEFAULT_NAMESPACE", "World", "allocation_node", "read_world"]

T = TypeVar("T")
Namespaced = TypeVar(
    "Namespaced", ResourceClaim, ResourceClaimTemplate, Pod, PodSchedulingContext, ControllerAllocation
)
Named = TypeVar(
    "Named",
    ResourceClaim,
    ResourceClaimTemplate,
    Pod,
    DeviceClass,
    Node,
    ResourceSlice,
    DeviceTaintRule,
    PodSchedulingContext,
    ControllerAllocation,
)
DEFAULT_NAMESPACE: Final = "default"


@dataclass
class World:
    """Objects of one cluster. The objects of each kind keep their order.

    Attributes:
        slices: slices of all generations.
        classes: classes by name.
        claims, templates, pods: objects by `namespace/name`.
        nodes: nodes by name. It may be empty, see `known_nodes`.
        taint_rules: DeviceTaintRules, with which an administrator taints devices.
        events: warnings about pods and claims. If read from a cluster, only warnings about failed prepares, and
            warnings of controllers.
        scheduling_contexts: negotiations about pods (KEP-3063), by `namespace/name` of the pod.
        controller_allocations: the controllers' records of their allocations (KEP-3063), by `namespace/name`.
        leases: names of Leases. If read from a cluster, only Leases with names of controllers. None: unknown.
        namespace: default namespace.
    """

    slices: list[ResourceSlice] = field(default_factory=list)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    claims: dict[str, ResourceClaim] = field(default_factory=dict)
    templates: dict[str, ResourceClaimTemplate] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    taint_rules: list[DeviceTaintRule] = field(default_factory=list)
    events: list[PodEvent] = field(default_factory=list)
    scheduling_contexts: dict[str, PodSchedulingContext] = field(default_factory=dict)
    controller_allocations: dict[str, ControllerAllocation] = field(default_factory=dict)
    leases: frozenset[str] | None = None
    namespace: str = DEFAULT_NAMESPACE

    def known_nodes(self) -> Mapping[str, Node]:
        """Return the nodes.

        Without Node objects, the result contains the nodes that slices and pods name, or else one node with the
        name `node`.
        """
        if self.nodes:
            return self.nodes
        named = [source.spec.node_name for source in self.slices]
        named += [device.node_name for source in self.slices for device in source.spec.devices]
        named += [pod.spec.node_name for pod in self.pods.values()]
        names = sorted({name for name in named if name}) or ["node"]
        return {name: Node(metadata=ObjectMeta(name=name)) for name in names}


def allocation_node(node: Node) -> AllocationNode:
    """Return the properties of the node that the allocator reads.

    Args:
        node: the Node object.
    """
    meta = node.metadata
    return AllocationNode(meta.name, meta.labels, frozenset(node.status.declared_features))


def read_world(documents: Iterable[Document]) -> World:
    """Return the world that documents describe. Kinds that the allocator does not need are skipped.

    Args:
        documents: objects of files.

    Raises:
        DraError: an object cannot be read, has no name, or is a duplicate. The message names file and document.
    """
    reader, slices, rules = SliceReader(), dict[str, ResourceSlice](), dict[str, DeviceTaintRule]()
    world = World()
    for document in documents:
        try:
            match document.kind:
                case "ResourceSlice":
                    source = reader.read(document.as_v1(), document.location)
                    _put(slices, source, document, namespaced=False)
                case "DeviceTaintRule":
                    _put(rules, _decode(DeviceTaintRule, document), document, namespaced=False)
                case _:
                    _add(world, document)
        except InvalidObjectError as error:
            raise DraError(f"{document.location}: {'; '.join(map(str, error.problems))}") from None
    world.slices, world.taint_rules = list(slices.values()), list(rules.values())
    return world


def _add(world: World, document: Document) -> None:
    match document.kind:
        case "DeviceClass":
            _put(world.classes, _decode(DeviceClass, document), document, namespaced=False)
        case "ResourceClaim":
            _put(world.claims, _in_namespace(_decode(ResourceClaim, document)), document)
        case "ResourceClaimTemplate":
            _put(world.templates, _in_namespace(_decode(ResourceClaimTemplate, document)), document)
        case "Pod":
            _put(world.pods, _in_namespace(_decode(Pod, document)), document)
        case "Node":
            _put(world.nodes, _with_allocatable(_decode(Node, document)), document, namespaced=False)
        case "Event":
            world.events.append(_decode(PodEvent, document))
        case "Lease":
            world.leases = (world.leases or frozenset()) | {_decode(Lease, document).metadata.name}
        case "PodSchedulingContext" if _is_classic(document):
            _put(world.scheduling_contexts, _in_namespace(_decode(PodSchedulingContext, document)), document)
        case "ControllerAllocation" if _is_classic(document):
            _put(world.controller_allocations, _in_namespace(_decode(ControllerAllocation, document)), document)
        case _:
            pass


def _is_classic(document: Document) -> bool:
    """Return whether an object is of our group: Kubernetes had a PodSchedulingContext of its own until 1.31."""
    return (document.api_version or "").partition("/")[0] == GROUP


def _decode(kind: type[T], document: Document) -> T:
    return decode(kind, document.as_v1(), document.location)


def _put(objects: dict[str, Named], value: Named, document: Document, *, namespaced: bool = True) -> None:
    meta = value.metadata
    if not meta.name:
        raise InvalidObjectError(document.location, [Problem("metadata.name", "is missing")])
    key = f"{meta.namespace}/{meta.name}" if namespaced else meta.name
    if key in objects:
        raise InvalidObjectError(document.location, [Problem("metadata.name", f"duplicate name {key}")])
    objects[key] = value


def _with_allocatable(node: Node) -> Node:
    """Return the node with the API server's default: `allocatable` is `capacity`.

    Source: `SetDefaults_NodeStatus` of Kubernetes 1.37.
    """
    status = node.status
    if status.allocatable or not status.capacity:
        return node
    return replace(node, status=replace(status, allocatable=status.capacity))


def _in_namespace(value: Namespaced) -> Namespaced:
    if value.metadata.namespace:
        return value
    return replace(value, metadata=replace(value.metadata, namespace=DEFAULT_NAMESPACE))
