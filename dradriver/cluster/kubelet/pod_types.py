"""Pods as the kubelet reads them: the model's Pod, and the parts of its status that only the kubelet needs."""

from datetime import datetime
from typing import Any

from dradriver.model.codec import Value
from dradriver.model.workload import Pod, PodStatus

__all__ = ["ExtendedResourceClaim", "NodePod", "NodePodStatus", "RequestMapping"]


class RequestMapping(Value, frozen=True, kw_only=True):
    """Which request of the claim stands for an extended resource of a container (KEP-5004)."""

    container_name: str
    resource_name: str
    request_name: str


class ExtendedResourceClaim(Value, frozen=True, kw_only=True):
    """The claim that the scheduler made for a pod's extended resources (`extendedResourceClaimStatus`)."""

    resource_claim_name: str
    request_mappings: list[RequestMapping] = []


class NodePodStatus(PodStatus, frozen=True, kw_only=True):
    """A pod's status with what an earlier run of the kubelet wrote."""

    start_time: datetime | None = None
    init_container_statuses: list[dict[str, Any]] = []
    extended_resource_claim_status: ExtendedResourceClaim | None = None


class NodePod(Pod, frozen=True, kw_only=True):
    """A pod that is bound to the node."""

    status: NodePodStatus = NodePodStatus()
