"""The few fields of Pod and Node that dynamic resource allocation reads."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dradriver.model.core.meta import Condition, ObjectMeta
from dradriver.model.core.node_selector import NodeSelector, NodeSelectorRequirement
from dradriver.model.encoding.codec import Value
from dradriver.model.quantity import Quantity

__all__ = [
    "Affinity",
    "Container",
    "ContainerResources",
    "EnvVar",
    "ExtendedResourceClaim",
    "LabelSelector",
    "Node",
    "NodeAffinity",
    "NodeSpec",
    "NodeStatus",
    "NodeTaint",
    "Pod",
    "PodAffinityTerm",
    "PodAntiAffinity",
    "PodClaim",
    "PodClaimStatus",
    "PodCondition",
    "PodSpec",
    "PodStatus",
    "RequestMapping",
    "ResourceClaimUse",
    "Toleration",
]


class ResourceClaimUse(Value, frozen=True):
    """A container's use of one of its pod's claims, or of one request of it."""

    name: str
    request: str = ""


class ContainerResources(Value, frozen=True, kw_only=True):
    """Requests and limits of a container."""

    claims: list[ResourceClaimUse] = []
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class EnvVar(Value, frozen=True):
    """An environment variable of a container."""

    name: str
    value: str = ""


class Container(Value, frozen=True, kw_only=True):
    """A container of a pod."""

    name: str
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    env: list[EnvVar] = []
    working_dir: str = ""
    resources: ContainerResources = ContainerResources()
    restart_policy: str = ""


class PodClaim(Value, frozen=True, kw_only=True):
    """A claim of a pod: an existing one, or one made from a template."""

    name: str
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class NodeAffinity(Value, frozen=True, kw_only=True):
    """On which nodes a pod may run, the binding half of `v1.NodeAffinity`."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class LabelSelector(Value, frozen=True, kw_only=True):
    """Labels that an object must have; an empty selector selects everything."""

    match_labels: dict[str, str] = {}
    match_expressions: list[NodeSelectorRequirement] = []

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        given = all(labels.get(key) == value for key, value in self.match_labels.items())
        return given and all(requirement.matches(labels) for requirement in self.match_expressions)


class PodAffinityTerm(Value, frozen=True, kw_only=True):
    """Pods, and how near is near: nodes that have the same value of the label `topology_key`."""

    label_selector: LabelSelector | None = None
    topology_key: str = ""
    namespaces: list[str] = []
    namespace_selector: LabelSelector | None = None

    def selects(self, pod: "Pod", namespace: str) -> bool:
        """Whether the term, of a pod in that namespace, means this pod.

        Namespaces are not looked at: one that is given by its labels means every namespace.
        """
        somewhere = self.namespace_selector is not None or pod.metadata.namespace in (
            self.namespaces or [namespace]
        )
        return (
            somewhere and self.label_selector is not None and self.label_selector.matches(pod.metadata.labels)
        )


class PodAntiAffinity(Value, frozen=True, kw_only=True):
    """Which pods a pod must not be near, the binding half of `v1.PodAntiAffinity`."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = []


class Affinity(Value, frozen=True, kw_only=True):
    """What a pod wants to be near to or far from."""

    node_affinity: NodeAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class NodeTaint(Value, frozen=True, kw_only=True):
    """A property of a node that keeps pods away."""

    key: str
    value: str = ""
    effect: str = ""


class Toleration(Value, frozen=True, kw_only=True):
    """A taint that a pod puts up with; an empty key or effect stands for any."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: NodeTaint) -> bool:
        """Whether the pod puts up with the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (self.operator in {"", "Equal"} and self.value == taint.value)


class PodSpec(Value, frozen=True, kw_only=True):
    """What a pod wants."""

    containers: list[Container] = []
    init_containers: list[Container] = []
    resource_claims: list[PodClaim] = []
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    scheduler_name: str = ""
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    scheduling_gates: list[dict[str, str]] = []
    priority: int | None = None


class PodClaimStatus(Value, frozen=True, kw_only=True):
    """Which claim was made for a pod's template; no name means that none was needed."""

    name: str
    resource_claim_name: str | None = None


class PodCondition(Value, frozen=True, kw_only=True):
    """One condition of a pod."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class RequestMapping(Value, frozen=True, kw_only=True):
    """Which request of the claim stands for an extended resource of a container (KEP-5004)."""

    container_name: str
    resource_name: str
    request_name: str


class ExtendedResourceClaim(Value, frozen=True, kw_only=True):
    """The claim that a scheduler made for a pod's extended resources (`extendedResourceClaimStatus`)."""

    resource_claim_name: str
    request_mappings: list[RequestMapping] = []


class PodStatus(Value, frozen=True, kw_only=True):
    """How far a pod is."""

    phase: str = ""
    conditions: list[PodCondition] = []
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    resource_claim_statuses: list[PodClaimStatus] = []
    extended_resource_claim_status: ExtendedResourceClaim | None = None
    container_statuses: list[dict[str, Any]] = []
    init_container_statuses: list[dict[str, Any]] = []


class Pod(Value, frozen=True, kw_only=True):
    """`v1` Pod."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def ref(self) -> str:
        """`namespace/name`, for messages."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def finished(self) -> bool:
        """Whether no container of the pod will run again."""
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def kept_apart_from(self) -> list[PodAffinityTerm]:
        """Pods that must not be near it."""
        apart = self.spec.affinity.pod_anti_affinity if self.spec.affinity else None
        return apart.required_during_scheduling_ignored_during_execution if apart else []

    def claim_name(self, claim: PodClaim) -> str | None:
        """The ResourceClaim behind one of the pod's claims, None while it is not known yet."""
        if claim.resource_claim_name:
            return claim.resource_claim_name
        statuses = self.status.resource_claim_statuses
        return next((s.resource_claim_name for s in statuses if s.name == claim.name), None)


class NodeSpec(Value, frozen=True, kw_only=True):
    """What a node was told."""

    unschedulable: bool = False
    taints: list[NodeTaint] = []


class NodeStatus(Value, frozen=True, kw_only=True):
    """What a node reports."""

    conditions: list[Condition] = []
    capacity: dict[str, Quantity] = {}
    allocatable: dict[str, Quantity] = {}
    node_info: dict[str, Any] = {}
    declared_features: list[str] = []


class Node(Value, frozen=True, kw_only=True):
    """`v1` Node."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
