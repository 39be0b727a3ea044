"""KEP-5004: request names, reuse by init containers, mappings, and requested amounts."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from dradriver.control.extended import ClassesByResource, requested_amounts
from dradriver.control.extended.requests import Requests, build_requests
from dradriver.model.core.workload import Container, Pod
from dradriver.model.extended_names import is_extended
from dradriver.model.quantity import Quantity
from tests.unit.control.extended_pods import GPU, IMPLICIT, NIC, container, gpu_class, pod
from tests.unit.control.world import NOW

SERVED = {GPU: "gpu-class", NIC: "nic-class"}


def counts(found: Requests) -> dict[str, int]:
    return {request.name: request.exactly.count or 0 for request in found.requests if request.exactly}


def mapped(found: Requests) -> list[tuple[str, str, str]]:
    return [(m.container_name, m.resource_name, m.request_name) for m in found.mappings]


def with_containers(*containers: Container, init: tuple[Container, ...] = ()) -> Pod:
    made = pod(init=init)
    return replace(made, spec=replace(made.spec, containers=list(containers)))


def test_a_request_is_named_after_the_positions_of_its_container_and_resource() -> None:
    found = build_requests(pod(cpu=1, gpu=2, memory=1), SERVED)
    assert counts(found) == {"container-0-request-1": 2}, "cpu, example.com/gpu, memory"
    assert mapped(found) == [("main", GPU, "container-0-request-1")]
    (request,) = found.requests
    assert request.exactly is not None
    assert (request.exactly.device_class_name, request.exactly.allocation_mode) == ("gpu-class", "ExactCount")


def test_each_container_and_resource_has_its_own_request() -> None:
    found = build_requests(with_containers(container("a", gpu=1, nic=1), container("b", nic=2)), SERVED)
    assert counts(found) == {
        "container-0-request-0": 1,
        "container-0-request-1": 1,
        "container-1-request-0": 2,
    }


def test_resources_that_devices_do_not_serve_make_no_request() -> None:
    found = build_requests(pod(gpu=1, nic=1), {NIC: "nic-class"})
    assert counts(found) == {"container-0-request-1": 1}


def test_an_amount_of_zero_makes_no_request() -> None:
    assert build_requests(pod(gpu=0), SERVED) == Requests()


def test_an_init_container_uses_the_devices_of_later_containers() -> None:
    found = build_requests(pod(gpu=2, init=(container("setup", gpu=1),)), SERVED)
    assert counts(found) == {"container-1-request-0": 2}
    assert ("setup", GPU, "container-1-request-0") in mapped(found)


def test_missing_devices_of_an_init_container_make_a_request() -> None:
    found = build_requests(pod(gpu=1, init=(container("setup", gpu=3),)), SERVED)
    assert counts(found) == {"container-0-request-0": 2, "container-1-request-0": 1}
    assert [m for m in mapped(found) if m[0] == "setup"] == [
        ("setup", GPU, "container-1-request-0"),
        ("setup", GPU, "container-0-request-0"),
    ]


def test_init_containers_share_the_largest_of_their_requests() -> None:
    """They run one after the other."""
    init = (container("a", gpu=2), container("b", gpu=4), container("c", gpu=3))
    found = build_requests(pod(init=init), SERVED)
    assert counts(found) == {"container-1-request-0": 4}
    assert {m[2] for m in mapped(found)} == {"container-1-request-0"}


def test_only_init_containers_before_a_sidecar_use_its_devices() -> None:
    init = (container("before", gpu=1), container("side", gpu=1, sidecar=True), container("after", gpu=1))
    found = build_requests(pod(init=init), SERVED)
    assert counts(found) == {"container-1-request-0": 1, "container-2-request-0": 1}
    assert ("before", GPU, "container-1-request-0") in mapped(found)
    assert ("after", GPU, "container-2-request-0") in mapped(found)


def test_the_amount_of_a_pod_is_that_of_containers_that_run_at_the_same_time() -> None:
    init = (container("a", gpu=5), container("side", gpu=1, sidecar=True), container("b", gpu=3))
    assert requested_amounts(pod(gpu=2, init=init)) == {GPU: 5}
    assert requested_amounts(pod(gpu=2, init=init[1:])) == {GPU: 4}, "the sidecar beside b"
    assert requested_amounts(pod(gpu=4, init=init[1:])) == {GPU: 5}, "the sidecar beside main"


def test_native_resources_are_not_counted() -> None:
    assert requested_amounts(pod(cpu=1, memory=1, gpu=1)) == {GPU: 1}


@pytest.mark.parametrize("name", [GPU, IMPLICIT, "a.example/b_c.d"])
def test_extended_names(name: str) -> None:
    assert is_extended(name)


NOT_EXTENDED = [
    "cpu",
    "kubernetes.io/gpu",
    "requests.example.com/gpu",
    "example.com/",
    "example.com/" + "x" * 64,
]


@pytest.mark.parametrize("name", NOT_EXTENDED)
def test_names_that_are_not_extended(name: str) -> None:
    assert not is_extended(name)


def test_a_part_of_a_device_makes_no_request() -> None:
    made = pod(gpu=1)
    half = replace(made.spec.containers[0].resources, requests={GPU: Quantity("500m")})
    spec = replace(made.spec, containers=[replace(made.spec.containers[0], resources=half)])
    assert build_requests(replace(made, spec=spec), SERVED) == Requests()


def test_a_class_also_serves_its_implicit_name() -> None:
    classes = ClassesByResource.of([gpu_class("gpu-class")])
    assert classes.class_name(GPU) == "gpu-class"
    assert classes.class_name("deviceclass.resource.kubernetes.io/gpu-class") == "gpu-class"
    assert classes.class_name(NIC) is None


def test_of_classes_with_one_name_the_newest_counts() -> None:
    old, new = gpu_class("a"), gpu_class("b", created=NOW + timedelta(seconds=1))
    for classes in ([old, new], [new, old]):
        found = ClassesByResource.of(classes)
        assert found.class_name(GPU) == "b"
        assert found.class_name("deviceclass.resource.kubernetes.io/a") == "a"


def test_of_equally_old_classes_with_one_name_the_first_by_name_counts() -> None:
    for names in ("ab", "ba"):
        assert ClassesByResource.of([gpu_class(name) for name in names]).class_name(GPU) == "a"


def test_a_class_is_replaced_without_disruption() -> None:
    """The new class is created before the old one loses the name, so a class always serves it."""
    old, new = gpu_class("old"), gpu_class("new", created=NOW + timedelta(days=1))
    steps = [[old], [old, new], [gpu_class("old", None), new], [new]]
    assert [ClassesByResource.of(step).class_name(GPU) for step in steps] == ["old", "new", "new", "new"]
