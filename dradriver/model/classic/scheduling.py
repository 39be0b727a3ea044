"""`PodSchedulingContext`: the negotiation of the scheduler and the controllers about one pod (KEP-3063)."""

from dradriver.model.core.meta import ObjectMeta
from dradriver.model.encoding.codec import Value

__all__ = [
    "ClaimSchedulingStatus",
    "PodSchedulingContext",
    "SchedulingSpec",
    "SchedulingStatus",
]


class SchedulingSpec(Value, frozen=True, kw_only=True):
    """Where the pod may run (`PodSchedulingContextSpec`). The scheduler writes it.

    Attributes:
        selected_node: the node for which the controllers must allocate; empty if none is selected.
        potential_nodes: names of nodes that suit the pod otherwise, at most `names.MAX_POTENTIAL_NODES`.
    """

    selected_node: str = ""
    potential_nodes: list[str] = []


class ClaimSchedulingStatus(Value, frozen=True, kw_only=True, omit_defaults=False):
    """For which nodes one claim cannot be allocated (`ResourceClaimSchedulingStatus`).

    Attributes:
        name: the name of the claim in the pod's `spec.resourceClaims`.
        controller_name: the controller that wrote the entry. KEP-3063 has no such field.
        unsuitable_nodes: names of nodes, at most `names.MAX_NODES`.
    """

    name: str
    controller_name: str
    unsuitable_nodes: list[str] = []


class SchedulingStatus(Value, frozen=True, kw_only=True):
    """The answers of the controllers (`PodSchedulingContextStatus`)."""

    resource_claims: list[ClaimSchedulingStatus] = []


class PodSchedulingContext(Value, frozen=True, kw_only=True):
    """The negotiation about a pod. It has the pod's name, and the pod owns it.

    `metadata.generation` counts the rounds: it grows when the scheduler changes `spec`.
    """

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: SchedulingSpec = SchedulingSpec()
    status: SchedulingStatus = SchedulingStatus()

    @property
    def ref(self) -> str:
        """Return `namespace/name`, which is also that of the pod."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    def is_for(self, pod_uid: str) -> bool:
        """Return whether the pod with this UID owns the object; an earlier pod may have had the same name."""
        return any(owner.kind == "Pod" and owner.uid == pod_uid for owner in self.metadata.owner_references)

    def answer(self, name: str, controller: str) -> ClaimSchedulingStatus | None:
        """Return a controller's answer about a claim; None if there is none.

        Args:
            name: the name of the claim in the pod's `spec.resourceClaims`.
            controller: the controller of the claim. Answers of others do not count.
        """
        return next(
            (
                each
                for each in self.status.resource_claims
                if (each.name, each.controller_name) == (name, controller)
            ),
            None,
        )
