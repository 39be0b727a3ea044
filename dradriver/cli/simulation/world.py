"""The objects of a simulation, read from documents."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from dradriver.allocator import Node
from dradriver.cli.files import Document
from dradriver.errors import DraError, InvalidObjectError, UsageError
from dradriver.model import workload
from dradriver.model.claim import ResourceClaim, ResourceClaimTemplate
from dradriver.model.codec import decode
from dradriver.model.deviceclass import DeviceClass
from dradriver.model.meta import ObjectMeta
from dradriver.model.slices import ResourceSlice
from dradriver.model.workload import Pod

__all__ = ["Need", "World", "read_world"]

T = TypeVar("T")


@dataclass
class World:
    """What the files hold, in their order.

    Attributes:
        nodes: those of the files; else those that slices and pods name.
    """

    slices: list[ResourceSlice] = field(default_factory=list)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    claims: dict[str, ResourceClaim] = field(default_factory=dict)
    templates: dict[str, ResourceClaimTemplate] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    def needs(self) -> Iterable["Need"]:
        """Each pod with its claims, then each claim that no pod uses."""
        used: set[str] = set()
        for pod in self.pods:
            need = self._need(pod)
            used.update(claim.ref for claim in need.claims)
            yield need
        for ref, claim in self.claims.items():
            if ref not in used:
                yield Need(f"claim {ref}", [claim])

    def _need(self, pod: Pod) -> "Need":
        namespace = pod.metadata.namespace or "default"
        need = Need(f"pod {namespace}/{pod.metadata.name}", [], pod)
        for wanted in pod.spec.resource_claims:
            existing = pod.claim_name(wanted)
            if existing is not None:
                claim = self.claims.get(f"{namespace}/{existing}")
                if claim is None:
                    need.missing.append(f"claim {namespace}/{existing} is not in the files")
                else:
                    need.claims.append(claim)
                continue
            template = self.templates.get(f"{namespace}/{wanted.resource_claim_template_name}")
            if template is None:
                name = f"{namespace}/{wanted.resource_claim_template_name}"
                need.missing.append(f"claim template {name} is not in the files")
                continue
            name = f"{pod.metadata.name}-{wanted.name}"
            need.claims.append(
                ResourceClaim(metadata=ObjectMeta(name=name, namespace=namespace), spec=template.spec.spec)
            )
        return need


@dataclass
class Need:
    """A pod (or a claim alone) that wants devices.

    Attributes:
        subject: `pod default/loop-1`.
        claims: its claims, in its order.
        pod: the pod, None for a claim that no pod uses.
        missing: why it can't be tried at all.
    """

    subject: str
    claims: list[ResourceClaim]
    pod: Pod | None = None
    missing: list[str] = field(default_factory=list)

    def may_run_on(self, node: Node) -> bool:
        """Whether the pod's own node name and node selector let it run there."""
        if self.pod is None:
            return True
        spec = self.pod.spec
        labels = all(node.labels.get(key) == value for key, value in spec.node_selector.items())
        return labels and spec.node_name in {"", node.name}


def read_world(documents: Iterable[Document]) -> World:
    """The world that the documents describe; kinds that allocation does not look at are skipped.

    Raises:
        DraError: an object can't be read; the message names its place.
        UsageError: there is nothing to allocate.
    """
    world = World()
    for document in documents:
        try:
            _add(world, document)
        except InvalidObjectError as error:
            raise DraError(f"{document.place}: {'; '.join(map(str, error.problems))}") from None
    if not world.pods and not world.claims:
        raise UsageError("the files hold no Pod and no ResourceClaim: there is nothing to allocate")
    if not world.nodes:
        named = [source.spec.node_name for source in world.slices] + [pod.spec.node_name for pod in world.pods]
        world.nodes = [Node(name) for name in dict.fromkeys(filter(None, named))] or [Node("node")]
    return world


def _add(world: World, document: Document) -> None:
    match document.kind:
        case "ResourceSlice":
            world.slices.append(_value(ResourceSlice, document))
        case "DeviceClass":
            device_class = _value(DeviceClass, document)
            world.classes[device_class.metadata.name] = device_class
        case "ResourceClaim":
            claim = _in_namespace(_value(ResourceClaim, document))
            world.claims[claim.ref] = claim
        case "ResourceClaimTemplate":
            template = _value(ResourceClaimTemplate, document)
            world.templates[f"{template.metadata.namespace or 'default'}/{template.metadata.name}"] = template
        case "Pod":
            world.pods.append(_value(Pod, document))
        case "Node":
            node = _value(workload.Node, document)
            world.nodes.append(Node(node.metadata.name, node.metadata.labels))
        case _:
            pass


def _value(kind: type[T], document: Document) -> T:
    return decode(kind, document.as_v1(), document.place)


def _in_namespace(claim: ResourceClaim) -> ResourceClaim:
    if claim.metadata.namespace:
        return claim
    return replace(claim, metadata=replace(claim.metadata, namespace="default"))
