"""`allocatedResourcesStatus` of a container: the health of the devices of its claims (KEP-4680)."""

from typing import Any

from dradriver.cluster.kubelet.claims.health import CachedHealth, HealthCache, to_resource_health
from dradriver.cluster.kubelet.claims.manager import ClaimManager
from dradriver.cluster.kubelet.pods.pod_types import NodePod
from dradriver.model.core.workload import Container
from dradriver.model.names import base_request

__all__ = ["build_resource_statuses"]


def build_resource_statuses(
    pod: NodePod, container: Container, claims: ClaimManager, health: HealthCache
) -> list[dict[str, Any]]:
    """Return one entry for each prepared claim, or request of such a claim, that the container names."""
    by_name = {claim.name: claim for claim in pod.spec.resource_claims}
    statuses: dict[str, list[dict[str, str]]] = {}
    for use in container.resources.claims:
        claim_name = pod.claim_name(by_name[use.name]) if use.name in by_name else None
        record = claims.record(pod.metadata.namespace, claim_name) if claim_name else None
        if record is None:
            continue
        found: dict[str, CachedHealth] = {}
        for driver, devices in record.drivers.items():
            for device in devices:
                if device.serves(base_request(use.request)):
                    own_id = f"{driver}/{device.pool}/{device.device}"
                    resource_id = device.cdi_devices[0] if device.cdi_devices else own_id
                    found.setdefault(resource_id, health.get(driver, device.pool, device.device))
        name = f"claim:{use.name}/{use.request}" if use.request else f"claim:{use.name}"
        if found:
            statuses[name] = to_resource_health(found)
    return [{"name": name, "resources": resources} for name, resources in statuses.items()]
