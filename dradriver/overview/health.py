"""Reads the health of devices from the status of pods.

The kubelet reports the health of the devices of a container's claims by resource ID, which is the CDI device ID
or `driver/pool/device`. CDI device IDs are chosen by drivers, so not every ID names its device.

Source: KEP-4680, `allocatedResourcesStatus` of a container.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dradriver.model.core.workload import Pod
from dradriver.model.names import base_request
from dradriver.model.resource.claim import DeviceId, DeviceResult, ResourceClaim
from dradriver.overview.values import Health

__all__ = ["ClaimHealth", "assign_health", "read_health"]

_WORDS: Final[Mapping[object, Health]] = {"Healthy": "healthy", "Unhealthy": "unhealthy", "Unknown": "unknown"}
_WORST_FIRST: Final[Sequence[Health]] = ("unhealthy", "unknown", "healthy")
_PREFIX: Final = "claim:"


class ClaimHealth(NamedTuple):
    """The health of devices of one claim, or of one of its requests.

    Attributes:
        request: the request; empty: all requests of the claim.
        resources: the health by resource ID.
    """

    request: str
    resources: tuple[tuple[str, Health], ...]


def read_health(pod: Pod) -> Mapping[str, tuple[ClaimHealth, ...]]:
    """Return what the kubelet reports about the devices of a pod, by claim (`namespace/name`).

    Args:
        pod: the pod. If it has ended, the result is empty: its status keeps the last report, which may be old.
    """
    if not pod.spec.resource_claims or pod.status.phase in {"Succeeded", "Failed"}:
        return {}
    names = {each.name: pod.claim_name(each) for each in pod.spec.resource_claims}
    reports: dict[str, tuple[ClaimHealth, ...]] = {}
    for name, resources in _entries(pod):
        claim, _, request = name.removeprefix(_PREFIX).partition("/")
        if name.startswith(_PREFIX) and names.get(claim):
            ref = f"{pod.metadata.namespace}/{names[claim]}"
            report = ClaimHealth(request, resources)
            if report not in reports.get(ref, ()):  # the containers of a pod report the same devices
                reports[ref] = (*reports.get(ref, ()), report)
    return reports


def _entries(pod: Pod) -> Iterator[tuple[str, tuple[tuple[str, Health], ...]]]:
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        for entry in _mappings(status.get("allocatedResourcesStatus")):
            resources = tuple(
                (str(each.get("resourceID", "")), _WORDS.get(each.get("health"), "unknown"))
                for each in _mappings(entry.get("resources"))
            )
            if resources:
                yield str(entry.get("name", "")), resources


def _mappings(value: object) -> Iterator[Mapping[str, Any]]:
    yield from (each for each in (value if isinstance(value, list) else ()) if isinstance(each, Mapping))


def assign_health(claim: ResourceClaim, reports: Iterable[ClaimHealth]) -> Mapping[DeviceId, Health]:
    """Return the health of the devices of a claim. If reports differ, the worst one counts.

    If an ID names no device, and all devices of its report have one health, the devices have this health.
    Otherwise the devices without an own ID are unknown.

    Args:
        claim: the claim.
        reports: what kubelets report about the claim.
    """
    found: dict[DeviceId, set[Health]] = {}
    keys = _keys_of_results(claim)
    for request, resources in reports:
        results = [each for each in claim.results if not request or base_request(each.request) == request]
        by_key = {_key(resource): health for resource, health in resources}
        common = {health for _, health in resources}
        fallback: Health = common.pop() if len(common) == 1 else "unknown"
        for result in results:
            own = next((by_key[key] for key in keys[result.id] if key in by_key), fallback)
            found.setdefault(result.id._replace(share_id=""), set()).add(own)
    return {device: next(each for each in _WORST_FIRST if each in all_of) for device, all_of in found.items()}


def _key(resource: str) -> str:
    """Return the device part of a CDI device ID `vendor/class=device`; other IDs are returned as they are."""
    return resource.partition("=")[2] or resource


def _keys_of_results(claim: ResourceClaim) -> Mapping[DeviceId, Sequence[str]]:
    """Return the IDs by which a kubelet may report each device of a claim.

    Drivers of the SDK name a CDI device by the claim's UID and the position among the driver's devices.
    """
    counts: dict[str, int] = {}
    keys = {}
    for result in claim.results:
        position = counts[result.driver] = counts.get(result.driver, -1) + 1
        keys[result.id] = _result_keys(claim, result, position)
    return keys


def _result_keys(claim: ResourceClaim, result: DeviceResult, position: int) -> Sequence[str]:
    own = f"{result.driver}/{result.pool}/{result.device}"
    return own, result.device, f"{claim.metadata.uid}-{position}"
