"""Pods as the kubelet reads them: the model's Pod with the status fields that only the kubelet needs."""

from datetime import datetime
from typing import Any

from dradriver.model.core.workload import Pod, PodStatus

__all__ = ["NodePod", "NodePodStatus"]


class NodePodStatus(PodStatus, frozen=True, kw_only=True):
    """A pod's status, with the fields that an earlier run of the kubelet wrote."""

    start_time: datetime | None = None
    init_container_statuses: list[dict[str, Any]] = []


class NodePod(Pod, frozen=True, kw_only=True):
    """A pod that is bound to the node."""

    status: NodePodStatus = NodePodStatus()
