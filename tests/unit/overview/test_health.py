"""The health of devices follows from the resource IDs that kubelets report."""

import pytest
from msgspec.structs import replace

from dradriver.model.resource.claim import DeviceId, DeviceResult, ResourceClaim
from dradriver.overview import Health
from dradriver.overview.health import ClaimHealth, assign_health, read_health
from dradriver.testing.builders import DRIVER, allocated, claim
from tests.unit.overview.objects import health_of, pod_of

A, B = (DeviceId(DRIVER, "node-1", name) for name in "ab")


def both(**requests: str) -> ResourceClaim:
    """A claim with the devices a and b, by request."""
    results = [
        DeviceResult(request=requests.get(each, "device"), driver=DRIVER, pool="node-1", device=each)
        for each in "ab"
    ]
    held = allocated(claim(name="c"), *results)
    return replace(held, metadata=replace(held.metadata, uid="uid-1"))


def test_reports_are_read_by_claim_and_request() -> None:
    status = health_of("c/gpu", x="Unhealthy", y="Healthy", z="Broken")
    reports = read_health(pod_of("c", containerStatuses=[status], initContainerStatuses=[status]))
    resources: tuple[tuple[str, Health], ...] = (("x", "unhealthy"), ("y", "healthy"), ("z", "unknown"))
    assert reports == {"default/c": (ClaimHealth("gpu", resources),)}


@pytest.mark.parametrize(
    "status", [{"name": "main"}, {"allocatedResourcesStatus": [{"name": "example.com/gpu", "resources": []}]}]
)
def test_a_container_without_reports_about_claims_reports_nothing(status: dict[str, object]) -> None:
    assert read_health(pod_of("c", containerStatuses=[status])) == {}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_reports_nothing(phase: str) -> None:
    assert read_health(pod_of("c", phase=phase, containerStatuses=[health_of("c", x="Unhealthy")])) == {}


@pytest.mark.parametrize(
    "ids",
    [
        (f"{DRIVER}/node-1/a", f"{DRIVER}/node-1/b"),
        (f"{DRIVER}/claim=uid-1-0", f"{DRIVER}/claim=uid-1-1"),
        ("vendor.com/gpu=a", "vendor.com/gpu=b"),
    ],
    ids=["own IDs", "CDI devices of the SDK", "CDI devices named like devices"],
)
def test_an_id_names_its_device(ids: tuple[str, str]) -> None:
    report = ClaimHealth("", ((ids[0], "unhealthy"), (ids[1], "healthy")))
    assert assign_health(both(), [report]) == {A: "unhealthy", B: "healthy"}


def test_devices_without_an_own_id_have_the_health_that_all_have() -> None:
    assert assign_health(both(), [ClaimHealth("", (("x", "unhealthy"), ("y", "unhealthy")))]) == {
        A: "unhealthy",
        B: "unhealthy",
    }
    mixed = ClaimHealth("", (("x", "unhealthy"), ("y", "healthy")))
    assert assign_health(both(), [mixed]) == {A: "unknown", B: "unknown"}


def test_a_report_about_a_request_concerns_only_its_devices() -> None:
    report = ClaimHealth("big", (("x", "unhealthy"),))
    assert assign_health(both(a="big/first", b="small"), [report]) == {A: "unhealthy"}


def test_of_several_reports_the_worst_counts() -> None:
    reports = [ClaimHealth("", ((f"{DRIVER}/node-1/a", word),)) for word in ("healthy", "unknown", "unhealthy")]
    assert assign_health(both(), reports)[A] == "unhealthy"
