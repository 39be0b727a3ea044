"""The fields of Pod and Node that dynamic resource allocation reads."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

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


_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


class ResourceClaimUse(Value, frozen=True):
    """A container's use of one of the pod's claims, or of one request of the claim."""

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
    """A claim of a pod: an existing ResourceClaim, or a claim that is created from a template."""

    name: str
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class NodeAffinity(Value, frozen=True, kw_only=True):
    """The nodes on which a pod may run: the required part of `v1.NodeAffinity`."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class LabelSelector(Value, frozen=True, kw_only=True):
    """Labels that an object must have. An empty selector selects every object."""

    match_labels: dict[str, str] = {}
    match_expressions: list[NodeSelectorRequirement] = []

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels is selected."""
        has_labels = all(labels.get(key) == value for key, value in self.match_labels.items())
        return has_labels and all(requirement.matches(labels) for requirement in self.match_expressions)


class PodAffinityTerm(Value, frozen=True, kw_only=True):
    """A selection of pods, and a node label: nodes with equal values of `topology_key` are one topology."""

    label_selector: LabelSelector | None = None
    topology_key: str = ""
    namespaces: list[str] = []
    namespace_selector: LabelSelector | None = None

    def selects(self, pod: "Pod", namespace: str) -> bool:
        """Return whether the term of a pod in `namespace` selects `pod`.

        A `namespace_selector` selects every namespace, because Namespace objects are not read.
        """
        is_in_namespace = self.namespace_selector is not None or pod.metadata.namespace in (
            self.namespaces or [namespace]
        )
        return (
            is_in_namespace
            and self.label_selector is not None
            and self.label_selector.matches(pod.metadata.labels)
        )


class PodAntiAffinity(Value, frozen=True, kw_only=True):
    """The pods that must not run in the same topology: the required part of `v1.PodAntiAffinity`."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = []


class Affinity(Value, frozen=True, kw_only=True):
    """The affinity rules of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class NodeTaint(Value, frozen=True, kw_only=True):
    """A mark on a node. It keeps away pods that do not tolerate it."""

    key: str
    value: str = ""
    effect: str = ""


class Toleration(Value, frozen=True, kw_only=True):
    """A pod's toleration of node taints. An empty key or effect matches every key or effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: NodeTaint) -> bool:
        """Return whether the toleration tolerates the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (self.operator in {"", "Equal"} and self.value == taint.value)


class PodSpec(Value, frozen=True, kw_only=True):
    """The specification of a pod."""

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
    preemption_policy: str = ""


class PodClaimStatus(Value, frozen=True, kw_only=True):
    """The claim that was created from a template for a pod. If it has no name, no claim was needed."""

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
    """The request that represents an extended resource of a container in the special claim (KEP-5004)."""

    container_name: str
    resource_name: str
    request_name: str


class ExtendedResourceClaim(Value, frozen=True, kw_only=True):
    """The special claim of a pod and its requests (`extendedResourceClaimStatus`)."""

    resource_claim_name: str
    request_mappings: list[RequestMapping] = []


class PodStatus(Value, frozen=True, kw_only=True):
    """The status of a pod."""

    phase: str = ""
    start_time: datetime | None = None
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
        """Return `namespace/name`, for messages."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def finished(self) -> bool:
        """Return whether no container of the pod will run again."""
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def priority(self) -> int:
        """Return the pod's priority; 0 if it has none (`corev1helpers.PodPriority`)."""
        return self.spec.priority or 0

    @property
    def required_anti_affinity(self) -> list[PodAffinityTerm]:
        """Return the terms for pods that must not run in the same topology as this pod."""
        anti_affinity = self.spec.affinity.pod_anti_affinity if self.spec.affinity else None
        return anti_affinity.required_during_scheduling_ignored_during_execution if anti_affinity else []

    def claim_name(self, claim: PodClaim) -> str | None:
        """Return the name of the ResourceClaim for one of the pod's claims; None while the name is unknown."""
        if claim.resource_claim_name:
            return claim.resource_claim_name
        statuses = self.status.resource_claim_statuses
        return next((s.resource_claim_name for s in statuses if s.name == claim.name), None)


class NodeSpec(Value, frozen=True, kw_only=True):
    """The specification of a node."""

    unschedulable: bool = False
    taints: list[NodeTaint] = []


class NodeStatus(Value, frozen=True, kw_only=True):
    """The status that a node reports."""

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

    @property
    def boot_id(self) -> str:
        """Return the boot ID that the kubelet reported when it last started; empty if it is unknown."""
        return str(self.status.node_info.get("bootID", ""))

    @property
    def is_out_of_service(self) -> bool:
        """Return whether an administrator has declared that the machine is shut down, and uses no device."""
        return any(taint.key == _OUT_OF_SERVICE for taint in self.spec.taints)
